"""Descriptors of trainers' pipes: closed once, whatever other threads open meanwhile."""

from __future__ import annotations

import subprocess
import sys

# Pipes are read and closed while threads open files: a number that is closed twice hits one of theirs.
RACE = """
import asyncio, os, threading, time, uvloop
from runspine.services.worker.process.trainer_process import _reader

until, wrong = time.monotonic() + 3, 0

def open_and_close():
    global wrong
    while time.monotonic() < until:
        opened = [os.open("/dev/null", os.O_WRONLY) for _ in range(20)]
        for descriptor in opened:
            try:
                os.close(descriptor)
            except OSError:
                wrong += 1

async def main():
    while time.monotonic() < until:
        pipes = [os.pipe() for _ in range(20)]
        opened = [await _reader(read) for read, _ in pipes]
        for (_, transport), (_, write) in zip(opened, pipes):
            transport.close()
            os.close(write)
        await asyncio.sleep(0)

threads = [threading.Thread(target=open_and_close) for _ in range(2)]
for thread in threads:
    thread.start()
uvloop.run(main())
for thread in threads:
    thread.join()
print(wrong, "closed by others;", len(os.listdir("/proc/self/fd")), "open")
"""


def test_the_end_of_a_trainer_closes_no_file_of_another_thread() -> None:
    """A worker lost attempts to "Bad file descriptor", and could be aborted by its event loop."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 closed by others"), done.stdout
    assert int(done.stdout.split()[4]) < 20, done.stdout
