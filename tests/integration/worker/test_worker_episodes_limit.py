"""A training ends as finished once it has trained as many episodes as its spec asks for."""

from __future__ import annotations

from runspine.domain.run import decide, fold
from runspine.domain.run.commands import RecordExit
from runspine.eventlog.subjects import run_subject
from runspine.wire.v1.facts_pb2 import FINISHED
from runspine.wire.v1.run_pb2 import COMPLETED
from tests.kit.worker_with_s3 import Bay

# Trains for ever: an episode and an evaluation each step, a checkpoint each; resumes at its step.
TRAINER = """
import json, os, sys, time
resume = os.environ.get("RUNSPINE_RESUME")
step = json.load(open(resume))["step"] if resume else 0
print("left", os.environ["RUNSPINE_MAX_EPISODES"], flush=True)
while True:
    step += 1
    json.dump({"step": step}, open(f"{step}.json", "w"))
    ended = {"type": "episode", "steps": 5, "return": 1.0}
    lines = [ended | {"episode_id": f"{step}"}, ended | {"episode_id": f"eval-{step}"}]
    lines += [{"type": "artifact", "kind": "checkpoint", "path": f"{step}.json", "step": step}]
    # At once: the signal comes after the last episode.
    os.write(1, "".join(json.dumps(line) + "\\n" for line in lines).encode())
    if len(sys.argv) > 1 and step == int(sys.argv[1]) and not resume:
        time.sleep(0.5)
        sys.exit("broken")
    time.sleep(0.05)
"""


async def test_a_training_is_stopped_as_finished_and_episodes_before_its_checkpoint_count(bay: Bay) -> None:
    bay.worker()
    run_id = await bay.submit("python", "-c", TRAINER, "6", max_episodes=20)
    assert (await bay.exited(run_id)).exit_code == 1
    made = await bay.artifacts(run_id, 6)
    assert [artifact.episodes for artifact in made] == [1, 2, 3, 4, 5, 6]
    await bay.again(run_id, 2)
    exited = await bay.exited(run_id, 2)
    assert (exited.outcome, exited.reason) == (FINISHED, "max_episodes reached: 20")
    assert (await bay.start_of(run_id, 2)).resumed_from.episodes == 6
    # Of this attempt: 14 and what was trained until the signal arrived, each with its evaluation.
    assert 28 <= exited.counts.episodes < 80
    run = fold(await bay.received(run_subject(run_id)))
    ended = fold(decide(run, RecordExit(at=9, exited=exited, ended_at=9)), run)
    assert (ended.phase, ended.reason) == (COMPLETED, "max_episodes reached: 20")
    assert [text for text in await bay.texts(run_id) if text.startswith("left")] == ["left 20", "left 14"]


async def test_a_checkpoint_of_the_last_episode_starts_no_trainer(bay: Bay) -> None:
    bay.worker()
    run_id = await bay.submit("python", "-c", TRAINER, "6", max_episodes=6)
    first = await bay.exited(run_id)
    # Its end was not recorded in time: the orchestrator has given it up.
    await bay.artifacts(run_id, 6)
    await bay.again(run_id, 2)
    exited = await bay.exited(run_id, 2)
    assert first.outcome == exited.outcome == FINISHED
    assert exited.counts.episodes == 0
