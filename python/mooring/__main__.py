"""`python -m mooring` is the command `mooring`; it also works where that script is not on the PATH."""

from __future__ import annotations

import sys

from mooring.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
