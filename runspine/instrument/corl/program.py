"""Runs a CORL script: our dataset for d4rl, our telemetry for W&B, its checkpoints as artifacts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from runspine.datasets.errors import DatasetError
from runspine.instrument import hooks, models
from runspine.instrument.corl.standins import RunDataset, modules
from runspine.instrument.program import execute, parser, stop
from runspine.instrument.record import echo, record
from runspine.instrument.standins import StandInFinder
from runspine.instrument.trackers.wandb_stand_in import WandbStandIn


def main(words: list[str]) -> int:
    asked = parser().parse_args(words)
    script: Path = asked.script
    if not script.is_file():
        parser().error(f"script {script} does not exist")
    record.script = str(script.resolve())
    try:
        served = RunDataset()
    except (KeyError, OSError, DatasetError) as error:
        sys.stderr.write(f"no dataset to learn from (RUNSPINE_DATASET): {error}\n")
        return 1
    sys.path[:0] = [str(script.resolve().parent), *(str(Path(path).resolve()) for path in asked.path)]
    # The real W&B refuses what these scripts call (`wandb.run.save()`), so it is never used.
    sys.meta_path.insert(0, StandInFinder({**modules(served), "wandb": WandbStandIn}))
    hooks.install({"torch": models.patch})
    signal.signal(signal.SIGTERM, stop)
    code = execute(script, asked.arguments)
    if record.run.active:
        echo(f"recorded {record.metrics:,} metrics and {record.models} checkpoints of {served.manifest.env}")
        if code == 0 and not record.metrics:
            echo("WARNING: the script has logged nothing: train for longer, or look at its log_frequency")
        record.run.finish()
    return code
