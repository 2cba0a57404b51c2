"""What a function refers to: looked at before each call, and replaced by stand-ins while it is traced."""
