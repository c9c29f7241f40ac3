"""A dataset for runners that learn from one: recorded on the stand, so that nothing need be there before."""

from __future__ import annotations

import time

from runspine.artifact_client import ArtifactClient
from runspine.conformance.result import Broken
from runspine.conformance.stand import LOOK_SECONDS, Stand, ending
from runspine.datasets import DATASET
from runspine.datasets.registry import wait_until_good
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.spec_pb2 import RunSpec

NAME = "conformance"
STEPS = 400


def give_dataset(stand: Stand) -> None:
    """Let the example learn from random actions, unless it says what it learns from. Raises Broken."""
    example = stand.example
    algo = next((each for each in stand.info.algos if each.name == example.algo), None)
    if algo is None or not algo.needs_dataset or example.dataset.digest:
        return
    spec = RunSpec(runner="corl", algo="record", env=example.env, env_kwargs=example.env_kwargs)
    spec.total_steps = STEPS
    spec.params["name"].text = NAME
    spec.params["reference_episodes"].integer = 1
    run = stand.end_of(stand.submit(spec))
    if run.phase != Phase.COMPLETED:
        raise Broken(f"the run that records its dataset {ending(run)}", "pip install 'runspine[corl]'")
    found = wait_until_good(stand.client, _registered(stand, run.id), NAME)
    example.dataset.name, example.dataset.digest = NAME, found.artifact.digest


def _registered(stand: Stand, run_id: str) -> wire.Artifact:
    """The registry hears of it a moment after the run has ended."""
    give_up = time.monotonic() + stand.patience
    while time.monotonic() < give_up:
        made = ArtifactClient(stand.client).list(wire.ListArtifactsRequest(run=run_id, kinds=[DATASET]))
        if made:
            return made[-1]
        time.sleep(LOOK_SECONDS)
    raise Broken("its dataset was not registered", "see whether the artifacts service runs: --keep")
