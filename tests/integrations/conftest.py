"""The programs need other packages, and run in processes of their own: `test_programs.py`."""

collect_ignore_glob = ["programs/*"]
