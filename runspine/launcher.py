"""`python -m runspine.launcher script.py arguments…`: run an unmodified script and record it."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from runspine.instrument.program import main

    sys.exit(main(sys.argv[1:]))
