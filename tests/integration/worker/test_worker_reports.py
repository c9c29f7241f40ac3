"""What a trainer reports about itself, and what its worker measures, are facts and metrics of the run."""

from __future__ import annotations

import json

from runspine.eventlog.subjects import attempts_subject
from runspine.services.worker.facts.outcome import attempts_of
from runspine.wire.v1.facts_pb2 import OFFLINE, SYNCED, AttemptExited
from runspine.wire.v1.run_pb2 import Attempt
from tests.kit.worker import Rig

URL = "https://wandb.ai/me/cartpole/runs/abc123"

# As a script with wandb does: its lines on stderr, its folder, event files; then work for some samples.
TRACKED = r"""
import json, os, sys, time
os.makedirs("wandb/run-20261118_042713-abc123")
os.makedirs("events/ppo")
open("events/ppo/events.out.tfevents.1", "w").write("scalars")
os.makedirs("videos")
open("videos/rl-video-episode-3.mp4", "w").write("frames")
json.dump({"episode_id": "0-3", "episode_return": 21.0, "episode_length": 21},
    open("videos/rl-video-episode-3.meta.json", "w"))
print(json.dumps({"type": "hello", "protocol": 2, "writer": "other 1.0"}))
print(json.dumps({"type": "config", "args": {"lr": 0.1}}))
print("wandb: Syncing run fiery-sun-12", file=sys.stderr)
print("wandb: View run at https://user:secret@wandb.ai/me/cartpole/runs/abc123?apiKey=0123", file=sys.stderr)
print(json.dumps({"event": "artifacts", "tensorboard": os.path.abspath("events/ppo")}))
end = time.time() + 0.6
while time.time() < end: pass
print("wandb: Synced 5 W&B file(s), 0 media file(s)", file=sys.stderr)
"""

# What wandb leaves when it prints nothing: `latest-run.json` and a folder, and traps that are not read.
SILENT = r"""
import json, os
os.makedirs("wandb/offline-run-20261118_042713-xyz")
os.symlink("/etc/passwd", "wandb/latest-run.json") if os.environ["TRAP"] else json.dump(
    {"project": "cartpole", "name": "ppo-1", "mode": "offline"}, open("wandb/latest-run.json", "w"))
"""


async def attempt_of(rig: Rig, run_id: str) -> tuple[Attempt, AttemptExited]:
    exited = await rig.exited(run_id, seconds=60)
    history, _ = await rig.log.read(attempts_subject(run_id))
    facts = [fact for recorded in history for fact in recorded.commit.facts]
    (attempt,) = attempts_of(facts).attempts
    return attempt, exited


async def test_the_run_at_wandb_the_config_and_the_usage_are_on_the_run(rig: Rig) -> None:
    rig.worker(RUNSPINE_SYSTEM_SECONDS="0.1")
    run_id = await rig.python(TRACKED)
    attempt, exited = await attempt_of(rig, run_id)
    assert exited.exit_code == 0, exited.reason
    tracking = attempt.tracking
    assert (tracking.url, tracking.entity, tracking.project) == (URL, "me", "cartpole")
    assert (tracking.name, tracking.run, tracking.state) == ("fiery-sun-12", "abc123", SYNCED)
    assert json.loads(attempt.described.config_json) == {"args": {"lr": 0.1}}
    assert (attempt.described.protocol, attempt.described.writer) == (2, "other 1.0")
    assert "this worker reads 1" in attempt.described.notice
    batches = await rig.batches(run_id)
    series = {block.name: list(block.values) for batch in batches for block in batch.metrics.blocks}
    assert max(series["system/cpu_percent"]) > 1
    assert min(series["system/memory_mib"]) > 0.5
    assert min(series["system/processes"]) >= 1
    assert exited.counts.metrics == sum(len(b.values) for batch in batches for b in batch.metrics.blocks)


async def test_what_wandb_leaves_on_disk_is_enough_and_links_are_not_followed(rig: Rig) -> None:
    rig.worker(RUNSPINE_SYSTEM_SECONDS="0")
    plain, _ = await attempt_of(rig, await rig.python(SILENT, variables={"TRAP": ""}))
    assert (plain.tracking.project, plain.tracking.name, plain.tracking.run) == ("cartpole", "ppo-1", "xyz")
    assert (plain.tracking.state, plain.tracking.url) == (OFFLINE, "")
    trapped, _ = await attempt_of(rig, await rig.python(SILENT, variables={"TRAP": "1"}))
    assert (trapped.tracking.run, trapped.tracking.project) == ("xyz", "")
