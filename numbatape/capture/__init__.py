"""What a function refers to: compared in each call, replaced by stand-ins while it is traced."""
