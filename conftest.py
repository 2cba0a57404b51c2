"""Which files of the library pytest does not import to collect their doctests, and that bytecode is kept."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

# Workers and some hundred processes that tests start each import hundreds of the library's modules. Where
# PYTHONDONTWRITEBYTECODE is set, as in many containers, each of them would compile all of these once more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files that import, at their top, a package that is not among the library's dependencies.
NEEDS = {"numbatape/integrations/pytensor_class.py": "pytensor"}

LIBRARY = Path(__file__).parent / "numbatape"

collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]


def pytest_ignore_collect(collection_path):
    """Leave out files of the library without examples: each one is a module to import and to look through."""
    if collection_path.suffix == ".py" and LIBRARY in collection_path.parents:
        return True if b">>>" not in collection_path.read_bytes() else None
    return None
