"""``python -m numbatape`` is the console script ``numbatape``."""

import sys

from numbatape.logdensity.cli import main

if __name__ == "__main__":
    sys.exit(main())
