"""Run a program that does not outlive the supervisor: `tether.py SIGNAL PARENT NICENESS PROGRAM ARGS...`

Run as a file by a bare interpreter, so that it costs milliseconds and imports nothing of ours.
The signal reaches the program itself, because exec keeps it; the program must see to its children.
"""

import ctypes
import os
import sys
import time

PR_SET_PDEATHSIG = 1


def be_nice(niceness: int) -> None:
    """Stand behind other processes. Where the kernel shares cores out by session, `nice` alone counts only
    within this one, and the session as a whole must be told too."""
    os.nice(niceness)
    for _ in range(5):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(niceness))
            return
        except BlockingIOError:
            time.sleep(0.1)  # the kernel takes ten such words a second, of all processes together
        except OSError:
            return  # no such kernel


def main(signal_number: int, parent: int, niceness: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    # The supervisor may have died before the line above; then no signal would ever come.
    if os.getppid() != parent:
        sys.exit("the supervisor is gone")
    if niceness:
        be_nice(niceness)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
