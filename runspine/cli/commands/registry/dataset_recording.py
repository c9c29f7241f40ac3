"""Record a dataset with a run, follow it, and register the result."""

from __future__ import annotations

import time
from typing import Any

from runspine.cli.commands.runs.submit import submitted_line
from runspine.cli.errors import FAILED, OK
from runspine.cli.lookup.checkpoint_reference import resolve
from runspine.cli.ui.dataset_text import echo_dataset
from runspine.cli.ui.follow import follow_run
from runspine.cli.ui.screen import echo, echo_json
from runspine.datasets.registry import check_name, plain, wait_until_good
from runspine.domain.artifact_kinds import DATASET
from runspine.errors import InvalidError, RefusedError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.spec_pb2 import RunSpec, Value


def record_dataset(client: Client, name: str, detach: bool, as_json: bool, options: dict[str, Any]) -> int:
    check_name(name)
    answer = client.submit(spec_for(client, name, options))
    run = answer.run
    if detach:
        if as_json:
            echo_json({"run": to_plain(run), "created": answer.created})
        else:
            echo(submitted_line(run, answer.created, {}))
            echo(f"when it has ended: runspine datasets name {run.id[:12]} {name}")
        return OK
    code = follow_run(client, run, as_json)
    if code != OK:
        return code
    made = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run.id, kinds=[DATASET]))
    give_up = time.monotonic() + 30
    while not made and time.monotonic() < give_up:
        time.sleep(0.2)
        made = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run.id, kinds=[DATASET]))
    if not made:
        raise RefusedError(
            f"run {run.id} has ended and its dataset is not in the registry: see runspine show {run.id}"
        )
    found = wait_until_good(client, made[-1], name)
    if as_json:
        echo_json({"dataset": plain(found)})
    else:
        echo()
        echo_dataset(found)
    return OK if found.artifact.integrity == wire.GOOD else FAILED


def spec_for(client: Client, name: str, options: dict[str, Any]) -> RunSpec:
    """Spec of the run that records the dataset."""
    spec = RunSpec(
        name=f"dataset-{name}", runner="corl", algo="record", env=options["env"], seed=options["seed"]
    )
    spec.total_steps = options["steps"]
    spec.params["name"].text = name
    for key in ("epsilon", "random_episodes"):
        spec.params[key].number = options[key]
    spec.params["stochastic"].boolean = options["stochastic"]
    if options["reference_episodes"] is not None:
        spec.params["reference_episodes"].CopyFrom(Value(integer=options["reference_episodes"]))
    if not options["policy"]:
        if not spec.env:
            raise InvalidError("give --policy CHECKPOINT, or --env for a random policy")
        return spec
    found = resolve(client, options["policy"])
    spec.warm_start.run_id, spec.warm_start.digest = found.run_id, found.digest
    if not spec.env:
        spec.env = found.env
        for key, value in found.env_kwargs.items():
            spec.env_kwargs[key].CopyFrom(value)
    return spec
