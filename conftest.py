"""Which files of the library pytest does not import to collect their doctests, and that bytecode is kept."""

import os
import sys
from importlib.util import find_spec

# Workers and some hundred processes that tests start each import hundreds of the library's modules. Where
# PYTHONDONTWRITEBYTECODE is set, as in many containers, each of them would compile all of these once more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files that import, at their top, a package that is not among the library's dependencies.
NEEDS = {"numbatape/integrations/pytensor_class.py": "pytensor"}

collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
