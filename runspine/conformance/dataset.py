"""Datasets for checks of offline runners, recorded on the temporary stack."""

from __future__ import annotations

import time

from runspine.conformance.context import POLL_SECONDS, CheckContext, ending
from runspine.conformance.result import NotConformingError
from runspine.datasets.registry import wait_until_good
from runspine.domain.artifact_kinds import DATASET
from runspine.rpc.artifact_client import ArtifactClient
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.spec_pb2 import RunSpec

NAME = "conformance"
STEPS = 400


def provide_dataset(context: CheckContext) -> None:
    """Record a dataset of random actions for the example, unless it names one.

    Raises NotConformingError.
    """
    example = context.example
    algo = next((each for each in context.info.algos if each.name == example.algo), None)
    if algo is None or not algo.needs_dataset or example.dataset.digest:
        return
    spec = RunSpec(runner="corl", algo="record", env=example.env, env_kwargs=example.env_kwargs)
    spec.total_steps = STEPS
    spec.params["name"].text = NAME
    spec.params["reference_episodes"].integer = 1
    run = context.wait_for_end(context.submit(spec))
    if run.phase != Phase.COMPLETED:
        raise NotConformingError(
            f"the run that records its dataset {ending(run)}", "pip install 'runspine[corl]'"
        )
    found = wait_until_good(context.client, _registered(context, run.id), NAME)
    example.dataset.name, example.dataset.digest = NAME, found.artifact.digest


def _registered(context: CheckContext, run_id: str) -> wire.Artifact:
    """Wait for the dataset of the run to be indexed."""
    give_up = time.monotonic() + context.patience
    while time.monotonic() < give_up:
        made = ArtifactClient(context.client).list(wire.ListArtifactsRequest(run=run_id, kinds=[DATASET]))
        if made:
            return made[-1]
        time.sleep(POLL_SECONDS)
    raise NotConformingError(
        "its dataset was not registered", "check that the artifacts service runs: --keep"
    )
