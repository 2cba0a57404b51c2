"""One run of a function, recorded: arguments in, tape out."""
