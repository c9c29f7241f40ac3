"""`python -m runspine.launcher [--path FOLDER] [--api auto|0.29|native] script.py arguments…`

In a virtualenv without Runspine, run this file by its path.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    if not __package__:
        # Python has put this folder first in the path: its files must not shadow modules of the script.
        folder = sys.path.pop(0)
        runpy.run_path(os.path.join(folder, "importable.py"))
    from runspine.instrument.program import main

    sys.exit(main(sys.argv[1:]))
