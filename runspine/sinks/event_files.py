"""TensorBoard sink: event files with the tags, steps and times of the trainer; values become float32.

The series of an evaluation are in a file of their own, at the numbers of its batches: in one file with
points at steps of the env, TensorBoard would draw both over one axis.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from runspine.domain.evaluation_series import EVALUATION_SERIES
from runspine.sinks.columns import points_of
from runspine.sinks.ledger import ExportLedger, run_folder
from runspine.sinks.port import EPISODES, METRICS, ExportedRun, Mark

MICROSECOND = 1_000_000
MAX_STEP = 2**63 - 1
MAX_FLOAT32 = 3.4028235677973366e38  # rounds to the largest float32
RETURN, LENGTH = "episode/return", "episode/length"
EVALUATION_FOLDER = "tensorboard_eval"


class EventFiles:
    """Writes one event file in the folder of the run, and one for the batches of an evaluation."""

    kinds = (METRICS, EPISODES)

    def __init__(self, out: Path, exported: ExportedRun) -> None:
        self.folder = run_folder(out, exported)
        self._exported = exported
        self._ledger = ExportLedger(self.folder, exported.run_id, "tensorboard", {})
        # TensorBoard reads files in order of their names, which begin with the time.
        name = f"events.out.tfevents.{exported.submitted_at // MICROSECOND:010d}.runspine"
        self._names = [name, f"{EVALUATION_FOLDER}/{name}"] if exported.evaluates else [name]

    def open(self) -> Mark:
        mark = self._ledger.open(self._names)
        self._writers = [RecordWriter(self._ledger.file(name)) for name in self._names]
        first = Event(wall_time=self._exported.submitted_at / MICROSECOND, file_version="brain.Event:2")
        for name, writer in zip(self._names, self._writers, strict=True):
            if mark.is_start and not self._ledger.file(name).tell():
                writer.write(first.SerializeToString())
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Write the hyperparameter table in the form of CleanRL."""
        rows = "\n".join(f"|{_cell(key)}|{_cell(value)}|" for key, value in parameters.items())
        table = f"|param|value|\n|-|-|\n{rows}"
        if self._ledger.notes.get("described") == table:
            return
        self._ledger.notes["described"] = table
        value = Summary.Value(
            tag="hyperparameters/text_summary",
            metadata=create_summary_metadata(display_name="hyperparameters", description=""),
            tensor=make_tensor_proto([table.encode()]),
        )
        at = self._exported.submitted_at / MICROSECOND
        event = Event(wall_time=at, step=0, summary=Summary(value=[value]))
        self._writers[0].write(event.SerializeToString())

    def feed(self, kind: str, batch: Any) -> None:
        if kind == METRICS:
            for block in batch.blocks:
                for value, step, at in points_of(block):
                    self._scalar(block.name, value, step, at)
            return
        for episode in batch.episodes:
            self._scalar(RETURN, getattr(episode, "return"), episode.global_step, episode.ended_at)
            if episode.HasField("steps"):
                self._scalar(LENGTH, float(episode.steps), episode.global_step, episode.ended_at)

    def commit(self, mark: Mark) -> None:
        self._ledger.commit(mark)

    def supersede(self, step: int, mark: Mark) -> Mark:
        """Write a START event: readers discard what lies at or after its step."""
        started = SessionLog(status=SessionLog.START)
        event = Event(wall_time=time.time(), step=min(step + 1, MAX_STEP), session_log=started)
        for writer in self._writers:
            writer.write(event.SerializeToString())
        return mark

    def close(self) -> str:
        self._ledger.close()
        return str(self.folder)

    def abandon(self) -> None:
        self._ledger.close()

    def _scalar(self, tag: str, value: float, step: int, at: int) -> None:
        if abs(value) > MAX_FLOAT32:
            value = float("inf") if value > 0 else float("-inf")
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        event = Event(wall_time=at / MICROSECOND, step=min(step, MAX_STEP), summary=summary)
        # The second file, where there is one, is that of the batches.
        writer = self._writers[-1 if tag in EVALUATION_SERIES else 0]
        writer.write(event.SerializeToString())


def _cell(value: object) -> str:
    """Escape characters that would end a table cell."""
    return str(value).replace("|", "\\|").replace("\n", " ")
