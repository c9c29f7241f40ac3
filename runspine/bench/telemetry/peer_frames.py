"""Other tools read the same points into a data frame, each in a separate process.

`python peer_frames.py write|read TOOL RUNS POINTS FOLDER` prints rows, seconds, peak memory and the sum of
the values. It imports nothing of Runspine: some peers need their own virtualenv (bench/peers.txt).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAME = "losses/value"
# wandb's file: LevelDB's log format in blocks, after a header of its own.
HEADER, BLOCK, FRAME = b":W&B\x89\xee\x00", 32_768, 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class ReadFrame(NamedTuple):
    """What a tool read: rows, seconds, peak memory of its process in MiB, and the sum of the values."""

    rows: int
    seconds: float
    peak_mib: float
    total: float


def value_at(number: int) -> float:
    """A value that depends only on the position, and needs all its digits."""
    return ((number * 0x9E3779B97F4A7C15) % 2**64 >> 11) / 2**53


def write_wandb(folder: Path, runs: int, points: int) -> None:
    from wandb.proto import wandb_internal_pb2

    wire: Any = wandb_internal_pb2
    first = folder / "run-0.wandb"
    with first.open("wb") as file:
        file.write(HEADER)
        at = len(HEADER)
        for number in range(points):
            record = wire.Record(num=number)
            for key, value in (("_step", number), (NAME, value_at(number))):
                record.history.item.add(nested_key=[key], value_json=json.dumps(value))
            at = _write_record(file, record.SerializeToString(), at)
    for run in range(1, runs):
        shutil.copy(first, folder / f"run-{run}.wandb")


def _write_record(file: Any, data: bytes, at: int) -> int:
    """Write a record in as many frames as blocks need; return where the next one begins."""
    begun = False
    while True:
        room = BLOCK - at % BLOCK
        if room < FRAME:
            file.write(bytes(room))
            at += room
            continue
        piece, data = data[: room - FRAME], data[room - FRAME :]
        kind = (LAST if begun else WHOLE) if not data else (MIDDLE if begun else FIRST)
        # The reader below does not look at checksums.
        file.write(struct.pack("<IHB", 0, len(piece), kind) + piece)
        at += FRAME + len(piece)
        begun = True
        if not data:
            return at


def read_wandb(folder: Path) -> Any:
    """With wandb's own messages: the package has no reader of its files for Python."""
    import pandas as pd
    from wandb.proto import wandb_internal_pb2

    wire: Any = wandb_internal_pb2
    frames = []
    for path in sorted(folder.glob("run-*.wandb")):
        steps, values = [], []
        for data in _records(path.read_bytes()):
            record = wire.Record.FromString(data)
            if record.WhichOneof("record_type") == "history":
                row = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                steps.append(row["_step"])
                values.append(row[NAME])
        frames.append(pd.DataFrame({"run": path.stem, "step": steps, "value": values}))
    return pd.concat(frames)


def _records(data: bytes) -> Iterator[bytes]:
    at, pieces = len(HEADER), b""
    while at + FRAME <= len(data):
        room = BLOCK - at % BLOCK
        if room < FRAME:
            at += room
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        pieces += data[at + FRAME : at + FRAME + size]
        at += FRAME + size
        if kind in (WHOLE, LAST):
            yield pieces
            pieces = b""


def write_mlflow(folder: Path, runs: int, points: int) -> None:
    """Runs made by MLflow; the points in its own file, which log_metric would write line by line."""
    from mlflow import MlflowClient  # type: ignore[import-not-found,unused-ignore]

    client = MlflowClient(folder.as_uri())
    experiment = client.create_experiment("bench")
    lines = "".join(f"{1_794_800_000_000 + n} {value_at(n)!r} {n}\n" for n in range(points))
    for _ in range(runs):
        run = client.create_run(experiment)
        client.log_metric(run.info.run_id, NAME, 0.0)
        (folder / experiment / run.info.run_id / "metrics" / NAME).write_text(lines)


def read_mlflow(folder: Path) -> Any:
    import pandas as pd
    from mlflow import MlflowClient

    client = MlflowClient(folder.as_uri())
    [experiment] = [each for each in client.search_experiments() if each.name == "bench"]
    frames = []
    for run in client.search_runs([experiment.experiment_id]):
        history = client.get_metric_history(run.info.run_id, NAME)
        points = {"step": [m.step for m in history], "value": [m.value for m in history]}
        frames.append(pd.DataFrame({"run": run.info.run_id, **points}))
    return pd.concat(frames)


def write_aim(folder: Path, runs: int, points: int) -> None:
    from aim import Run  # type: ignore[import-not-found,unused-ignore]

    for _ in range(runs):
        run = Run(repo=str(folder), system_tracking_interval=None, capture_terminal_logs=False)
        for number in range(points):
            run.track(value_at(number), name=NAME, step=number)
        run.close()


def read_aim(folder: Path) -> Any:
    import pandas as pd
    from aim import Repo

    frames = []
    for each in Repo(str(folder)).query_metrics(f"metric.name == {NAME!r}").iter_runs():
        for metric in each:
            steps, (values, *_) = metric.data.items_list()
            frames.append(pd.DataFrame({"run": each.run.hash, "step": steps, "value": values}))
    return pd.concat(frames)


TOOLS = {
    "wandb offline files": (write_wandb, read_wandb),
    "MLflow file store": (write_mlflow, read_mlflow),
    "Aim": (write_aim, read_aim),
}
OWN_VIRTUALENV = ("Aim",)
NOT_CONFIGURED = "no Python with it is named (--peers or RUNSPINE_BENCH_PEERS)"


def measure(tool: str, runs: int, points: int, folder: Path, peers: str = "") -> ReadFrame | str:
    """Write and read with a tool in separate processes; or the reason why that failed."""
    if tool in OWN_VIRTUALENV and not peers:
        return NOT_CONFIGURED
    folder.mkdir(parents=True, exist_ok=True)
    # No network access.
    quiet = {
        "WANDB_MODE": "offline",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "DO_NOT_TRACK": "1",
        "AIM_TELEMETRY_ENABLED": "0",
    }
    python = peers if tool in OWN_VIRTUALENV else sys.executable
    for what in ("write", "read"):
        command = [python, "-P", "-W", "ignore", __file__, what, tool, str(runs), str(points), str(folder)]
        done = subprocess.run(
            command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it ended without output"])[-1]
    return ReadFrame(*json.loads(done.stdout.strip().splitlines()[-1]))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(what: str, tool: str, runs: int, points: int, folder: Path) -> None:
    write, read = TOOLS[tool]
    if what == "write":
        write(folder, runs, points)
        return
    began = time.perf_counter()
    frame = read(folder)
    seconds = time.perf_counter() - began
    print(json.dumps(ReadFrame(len(frame), seconds, peak_mib(), float(frame["value"].sum()))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
