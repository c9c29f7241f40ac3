"""The local end of a terminal on a worker: keys out, output in, sizes as they change."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from types import FrameType

from runspine.cli.ui.screen import note
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.processes_pb2 import AttachBegin, AttachRequest, TerminalSize

# Ctrl-].
LEAVE = b"\x1d"
# Ctrl-D, which ends the input of a terminal.
END_OF_INPUT = b"\x04"
CHUNK = 4096
# As ssh, when the connection was lost.
LOST_CODE = 255


def attached(client: Client, run_id: str, command: Sequence[str]) -> int:
    """Exit code of the program, or 255 when the terminal ended before it."""
    requests: queue.SimpleQueue[AttachRequest | None] = queue.SimpleQueue()
    begin = AttachBegin(run_id=run_id, command=command, size=_size(), term=os.environ.get("TERM", ""))
    requests.put(AttachRequest(begin=begin))
    responses = client.attach(iter(requests.get, None))
    code = LOST_CODE
    with contextlib.ExitStack() as stack:
        stack.callback(requests.put, None)
        for response in responses:
            if response.HasField("began"):
                began = response.began
                wall = "in its sandbox" if began.sandboxed else "without a sandbox"
                # First the keys: what is typed after the note is for the program there.
                stack.enter_context(_keys(requests))
                note(f"attempt {began.attempt} on worker {began.worker_id}, {wall}; Ctrl-] ends it\r")
            elif response.HasField("output"):
                sys.stdout.buffer.write(response.output)
                sys.stdout.buffer.flush()
            elif response.HasField("ended"):
                code = response.ended.exit_code if response.ended.exit_code >= 0 else LOST_CODE
                if response.ended.reason:
                    note(f"\r{response.ended.reason}\r")
    return code


@contextlib.contextmanager
def _keys(requests: queue.SimpleQueue[AttachRequest | None]) -> Iterator[None]:
    """Send what is typed, key by key; the terminal is as before afterwards."""
    descriptor = sys.stdin.fileno()
    interactive = os.isatty(descriptor)
    before = termios.tcgetattr(descriptor) if interactive else None

    def resized(_number: int, _frame: FrameType | None) -> None:
        requests.put(AttachRequest(size=_size()))

    previous = signal.signal(signal.SIGWINCH, resized)
    if interactive:
        tty.setraw(descriptor, termios.TCSADRAIN)
    threading.Thread(target=_read, args=(descriptor, requests, interactive), daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
        if before is not None:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read(descriptor: int, requests: queue.SimpleQueue[AttachRequest | None], interactive: bool) -> None:
    while data := os.read(descriptor, CHUNK):
        if interactive and LEAVE in data:
            # The command ends, and the terminal with it.
            os.kill(os.getpid(), signal.SIGINT)
            return
        requests.put(AttachRequest(input=data))
    requests.put(AttachRequest(input=END_OF_INPUT))


def _size() -> TerminalSize:
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        size = shutil.get_terminal_size()
    return TerminalSize(rows=size.lines, columns=size.columns)
