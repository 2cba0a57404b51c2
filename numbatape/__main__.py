"""``python -m numbatape`` is the console script ``numbatape``."""

import sys


def run() -> int:
    """Run the batch program; Ctrl-C ends it even while it imports."""
    try:
        from numbatape.logdensity.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("numbatape: interrupted\n")
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(run())
