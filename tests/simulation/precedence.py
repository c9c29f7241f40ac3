"""A checkpoint never precedes its steps: when it is on the log, those of its attempt are on the stream."""

from __future__ import annotations

import numpy as np

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.eventlog.subjects import ATTEMPTS, TELEMETRY
from runspine.services.worker.telemetry.assembly.batches import KINDS, STEP
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.telemetry_pb2 import Batch
from tests.simulation.hosts import Hosts
from tests.simulation.world import World

# By run, attempt and number of the step in its run: when the stream had it.
Steps = dict[tuple[str, int, int], float]


def check_precedence(world: World, hosts: Hosts) -> None:
    """Hold each checkpoint on the log against the steps that were stored before it."""
    steps = stored_steps(world)
    written = {
        (training.trainer.life.run_id, training.trainer.life.attempt, digest): training.steps_before(done)
        for training in hosts.trainings
        for digest, done in training.announced.items()
    }
    for one in world.cluster.streams[ATTEMPTS].store.order:
        run_id = one.subject.partition(".")[2]
        for fact in Commit.FromString(one.data).facts:
            artifact = fact.artifact_produced
            if artifact.kind != CHECKPOINT:
                continue
            needed = written.get((run_id, artifact.attempt, artifact.digest), range(0))
            missing = [
                step for step in needed if steps.get((run_id, artifact.attempt, step), one.at + 1) > one.at
            ]
            if missing:
                world.problem(f"a checkpoint precedes its steps: {missing} of attempt {artifact.attempt}")
            elif needed:
                world.reach("checkpoint.after_its_steps")


def stored_steps(world: World) -> Steps:
    """Every step that the stream has taken, also what was removed from it since."""
    found: Steps = {}
    for one in world.cluster.streams[TELEMETRY].store.order:
        _, run_id, attempt, kind = one.subject.split(".")
        if kind != KINDS[STEP - 1]:
            continue
        for block in Batch.FromString(one.data).steps.blocks:
            for step in np.frombuffer(block.action.data, block.action.dtype).tolist():
                found.setdefault((run_id, int(attempt), step), one.at)
    return found
