"""Run a program that does not outlive the supervisor: `tether.py SIGNAL PARENT NICENESS PROGRAM ARGS...`

It is run as a file by an isolated interpreter, so that it starts in milliseconds. exec keeps the death
signal, so it reaches the program itself; the program has to stop its own children.
"""

import ctypes
import os
import sys
import time

PR_SET_PDEATHSIG = 1


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process. Where the kernel schedules by session, `nice` counts only within
    the session, and the priority of the session has to be set as well."""
    os.nice(niceness)
    for _ in range(5):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(niceness))
            return
        except BlockingIOError:
            time.sleep(0.1)  # the kernel accepts ten such writes a second over all processes
        except OSError:
            return  # the kernel has no autogroups


def main(signal_number: int, parent: int, niceness: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    # If the supervisor ended before the line above, no signal would be sent.
    if os.getppid() != parent:
        sys.exit("the supervisor is gone")
    if niceness:
        lower_priority(niceness)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
