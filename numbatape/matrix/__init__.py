"""Linear algebra beyond the op table: rules of matrix functions, and what is composed of them."""
