"""Which files pytest leaves out, what workers report, and that bytecode is kept."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Send one report a test from a worker, not three: what was set up and torn down well is not worth one.

    Three reports, written to a pipe, read and counted, took a third of all that pytest does for a test.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    seconds = sum(report.duration for report in reports)
    for report in reports:
        if report.when == "call" or not report.passed:
            report.duration, seconds = seconds, 0.0
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
