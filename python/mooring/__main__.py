"""`python -m mooring`: the command `mooring`, also where the script of that name is not on the PATH."""

from __future__ import annotations

import sys

from mooring.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
