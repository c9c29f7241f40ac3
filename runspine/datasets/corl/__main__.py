"""`python -m runspine.datasets.corl [--path FOLDER] script.py arguments…`

The same by the path of this file, in a virtualenv without Runspine.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    if not __package__:
        # Python has put this folder first in the path: its files are no modules of the script's.
        folder = sys.path.pop(0)
        runpy.run_path(os.path.join(folder, "..", "..", "launcher", "importable.py"))
    from runspine.datasets.corl.program import main

    sys.exit(main(sys.argv[1:]))
