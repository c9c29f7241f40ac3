"""Restart the supervisor of a detached stack when it was killed: `watchdog.py PROGRAM ARGS...`

It is run as a file by an isolated interpreter and imports nothing of ours: it has to be small, and to outlive
every mistake of what it watches. `--watchdog PID` is added to the command.

A supervisor that ends by itself (`runspine down`, a start that fails) is not restarted. Its parts end with
it, and trainers with their workers; the next one starts all parts again, and runs resume from checkpoints.
"""

import os
import signal
import sys
import time

# One that lived for so long had started: an error after that is a crash, and the next pause is a short one.
STEADY_SECONDS = 20.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 30.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watchdog:
    """One supervisor after another, until one ends by itself or a signal asks for the end."""

    def __init__(self, command: list[str]) -> None:
        self._command = [*command, f"--watchdog={os.getpid()}"]
        self._child = 0
        self._stopping = False
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)

    def run(self) -> int:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            status = self._run_once()
            steady = time.monotonic() - began > STEADY_SECONDS
            code = os.waitstatus_to_exitcode(status)
            crashed = code < 0 or (code > 0 and steady)
            if self._stopping or not crashed:
                return max(code, 0)
            why = f"signal {-code}" if code < 0 else f"exit code {code}"
            sys.stderr.write(f"the supervisor ended with {why}: it is started again\n")
            sys.stderr.flush()
            pause = FIRST_PAUSE_SECONDS if steady else pause
            self._sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)
            if self._stopping:
                return 0

    def _run_once(self) -> int:
        # A signal that comes before the pid is known waits until it is.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._child = os.posix_spawn(
            self._command[0], self._command, os.environ, setsigmask=[], setsigdef=STOP_SIGNALS
        )
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return status

    def _stop(self, number: int, _: object) -> None:
        self._stopping = True
        if self._child:
            os.kill(self._child, number)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < until:
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(Watchdog(sys.argv[1:]).run())
