"""What a function refers to, as it was when it was traced; compared in each call."""
