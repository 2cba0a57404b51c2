"""What replaces functions, modules, classes and arrays of the user's while a function is traced."""
