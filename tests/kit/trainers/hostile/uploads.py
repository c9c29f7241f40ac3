"""Escapes by the hands of the worker, which reads files of the run's directory outside the sandbox."""

from __future__ import annotations

import json
import os
import threading
import time

from .registry import GIVEN, RENAME_EXCHANGE, escape, libc

# Names in its directory, and links with which they change places while the worker looks.
EXCHANGED: list[tuple[bytes, bytes]] = []


@escape
def have_files_of_others_uploaded() -> object:
    # The test looks what was uploaded.
    os.symlink(GIVEN["credentials"], "link.json")
    os.symlink("/proc/self/environ", "environ")
    for path in (GIVEN["credentials"], "../../../journal", "link.json", "environ", "/proc/1/environ"):
        print(json.dumps({"type": "artifact", "kind": "model", "path": path}), flush=True)
    return None


@escape
def have_scalars_of_another_run_read() -> object:
    # The test looks whether this run has any. Names are exchanged below.
    os.makedirs("board/logs")
    open("board/logs/events.out.tfevents.1.other", "w").close()
    os.symlink(os.path.dirname(GIVEN["other_file"]) + "/board", "others_board")
    os.symlink(GIVEN["other_file"], "events.out.tfevents.2.link")
    EXCHANGED.append((b"board", b"others_board"))
    return None


@escape
def keep_the_worker_waiting() -> object:
    # The run does not end if one of them does it. A device, and pipes that nobody writes to.
    os.symlink("/dev/zero", ".recorded-event-files")
    for name in ("events.out.tfevents.3.pipe", "model.pt", "checkpoint.safetensors"):
        os.mkfifo(name)
    os.makedirs("wandb", exist_ok=True)
    os.mkfifo("wandb/wandb-summary.json")
    os.symlink("/dev/zero", "video.mp4")
    for path in ("model.pt", "checkpoint.safetensors", "video.mp4"):
        print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": path}), flush=True)
    return None


@escape
def move_its_directory_away() -> object:
    os.rename(GIVEN["run_dir"], GIVEN["run_dir"] + "-moved")
    return "moved"


@escape
def exchange_a_folder_while_it_is_uploaded() -> object:
    # Outside the sandbox the link leads to the other run.
    os.mkdir("swapped")
    with open("swapped/file", "w") as file:
        file.write("its own")
    os.symlink(os.path.dirname(GIVEN["other_file"]), "other")
    EXCHANGED.append((b"swapped", b"other"))
    stopped = threading.Event()

    def exchange() -> None:
        while not stopped.is_set():
            for one, other in EXCHANGED:
                libc.renameat2(-100, one, -100, other, RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    until = time.monotonic() + GIVEN["race_seconds"]
    name = os.path.basename(GIVEN["other_file"])
    while time.monotonic() < until:
        for path in ("swapped/file", f"swapped/{name}"):
            print(json.dumps({"type": "artifact", "kind": "model", "path": path}), flush=True)
        time.sleep(0.002)
    stopped.set()
    thread.join()
    return None
