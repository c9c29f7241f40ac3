"""`python -m runspine.launcher [--path FOLDER] [--api auto|0.29|native] script.py arguments…`

The same by the path of this file, in a virtualenv without Runspine.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    if not __package__:
        # Python has put this folder first in the path: its files are no modules of the script's.
        folder = sys.path.pop(0)
        runpy.run_path(os.path.join(folder, "importable.py"))
    from runspine.launcher.program import main

    sys.exit(main(sys.argv[1:]))
