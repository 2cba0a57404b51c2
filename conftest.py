"""Which files of the library pytest does not import to collect their doctests."""

from importlib.util import find_spec

# Files that import, at their top, a package that is not among the library's dependencies.
NEEDS = {"numbatape/integrations/pytensor_class.py": "pytensor"}

collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
