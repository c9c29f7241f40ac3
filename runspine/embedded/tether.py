"""Run a program that does not outlive the supervisor: `tether.py SIGNAL PARENT PROGRAM ARGS...`

Run as a file by a bare interpreter, so that it costs milliseconds and imports nothing of ours.
The signal reaches the program itself, because exec keeps it; the program must see to its children.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(signal_number: int, parent: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    # The supervisor may have died before the line above; then no signal would ever come.
    if os.getppid() != parent:
        sys.exit("the supervisor is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
