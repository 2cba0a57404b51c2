"""The statuses that a kernel returns when it stops."""

DONE = 0
GUARD = 1  # a guard's value differs from the one that was traced
INDEX = 2  # a position that is data lies outside its array
FACTOR = 3  # a matrix is singular or not positive definite
CONSTANT = 4  # a watched constant's contents changed
CALL = 5  # a rule written in Python raised
INTEGER = 6  # an integer is too large for a float64 to be exact
