"""The paths that the user's documents describe, from a command to what is on record, on one stack."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.run_follower import RunFollower
from runspine.services.dashboard.settings import DashboardSettings
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input
from tests.kit.cleanrl import STAND_IN
from tests.kit.paths import ROOT
from tests.kit.player import actors_in, balancer
from tests.kit.samples.wandb_files import read_wandb
from tests.kit.servers.chat import ChatServer, chat_server, lake_walker
from tests.kit.sinks import scalars
from tests.kit.stack import Shell
from tests.kit.viewer import Viewer, looking
from tests.kit.waiting import eventually, until

SECRET = "sk-never-on-the-record"
CARTPOLE = "CartPole-v1"


@pytest.fixture(scope="module")
def model() -> Iterator[ChatServer]:
    with chat_server(lake_walker) as server:
        yield server


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, model: ChatServer) -> Iterator[Shell]:
    shell = Shell(
        tmp_path_factory.mktemp("documents") / "home",
        RUNSPINE_CLEANRL_DIR=str(STAND_IN),
        RUNSPINE_LLM_URL=model.url,
        RUNSPINE_LLM_MODEL="walker-7b",
        RUNSPINE_LLM_KEY=SECRET,
    )
    shell("up", "--detach", "--slots", "2")
    yield shell
    shell("down")


def run_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def artifacts(shell: Shell, run_id: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.json("artifacts", "list", run_id, "--kind", kind)["artifacts"]
    return found


CLEANRL = """
runner: cleanrl
algo: tiny_reinforce
env: CartPole-v1
seed: 5
total_steps: 300
params: {track: true, capture_video: true}
variables: {WANDB_MODE: offline}
"""


@pytest.mark.long
def test_a_cleanrl_script_is_tracked_offline_charted_and_filmed(shell: Shell, tmp_path: Path) -> None:
    run_id = shell.submit(run_file(tmp_path / "cleanrl.yaml", CLEANRL))
    shell.until(run_id, "completed")
    shown = shell.json("show", run_id)
    tracking = shown["attempts"][0]["tracking"]
    assert (tracking["service"], tracking["project"], tracking["state"]) == ("wandb", "tiny", "offline")
    assert tracking["run"]
    assert not tracking.get("url")
    assert "W&B: no address (tiny, " in shell("show", run_id).stdout
    [listed] = [run for run in shell.json("ls")["runs"] if run["run"]["id"] == run_id]
    assert listed["tracking"] == tracking

    series = {one["name"]: one for one in shell.json("metrics", run_id)["series"]}
    assert {"charts/episodic_return", "losses/policy_loss"} <= set(series)
    until(lambda: artifacts(shell, run_id, "video"))
    [clip] = artifacts(shell, run_id, "video")[:1]
    episodes = {e["episode"]["episode_id"]: e["episode"] for e in shell.json("episodes", run_id)["episodes"]}
    filmed = episodes[clip["meta"]["episode_id"]]
    assert (clip["meta"]["return"], clip["meta"]["length"]) == (filmed["return"], filmed["steps"])

    # The script's own event file and what Runspine exports agree.
    [events] = artifacts(shell, run_id, "tensorboard")
    shell("artifacts", "get", events["digest"], "--out", tmp_path / "events.out.tfevents.1")
    shell("export", run_id, "--to", "tensorboard", "--out", tmp_path / "tb")
    [folder] = (tmp_path / "tb").iterdir()
    own = {point for point in scalars(tmp_path / "events.out.tfevents.1") if point[0].startswith("charts/")}
    assert own
    assert own <= set(scalars(folder))
    assert artifacts(shell, run_id, "wandb"), "what `wandb sync` needs"

    shell("export", run_id, "--to", "wandb", "--out", tmp_path / "wb")
    media = {item[2] for item in read_wandb(tmp_path / "wb") if item[0] == "media/videos/episode"}
    assert media == {video["digest"] for video in artifacts(shell, run_id, "video")}


@pytest.mark.long
def test_a_bdi_agent_learns_and_its_beliefs_are_watched(shell: Shell) -> None:
    run_id = shell.submit(ROOT / "examples/bdi/frozenlake.yaml", "--set", "total_steps=600")
    watched = shell("mind", run_id, "--follow").stdout
    assert "step" in watched
    shell.until(run_id, "completed")
    newest = shell.json("mind", run_id)
    assert newest["beliefs"]
    assert newest["goals"]
    series = {one["name"] for one in shell.json("metrics", run_id)["series"]}
    assert {"mind/beliefs", "mind/confidence"} <= series
    [row] = [run for run in shell.json("ls", "--env", "FrozenLake-v1")["runs"] if run["run"]["id"] == run_id]
    assert row["run"]["spec"]["runner"] == "spade_bdi"


def test_a_language_model_plays_through_a_worker_and_its_key_stays_off_the_record(
    shell: Shell, model: ChatServer
) -> None:
    lake = ("FrozenLake-v1", "--set", "env_kwargs.is_slippery=false")
    words = ("--actor", "llm", "--episodes", 1, "--fps", 100, "--detach")
    run_id = shell.json("play", *lake, *words)["runs"][0]["id"]
    shell.until(run_id, "completed")
    [episode] = shell.json("episodes", run_id)["episodes"]
    assert (episode["episode"]["return"], episode["episode"]["steps"]) == (1.0, 6)
    turns = shell("turns", run_id)
    assert {request.key for request in model.requests} == {SECRET}
    assert len(model.requests) == 6
    shell("replay", run_id, "0")
    home = Path(shell.environment["RUNSPINE_HOME"])
    kept = [path for path in (home / "worker").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert SECRET not in turns.stdout + shell("logs", run_id).stdout


def test_an_activated_checkpoint_plays_by_its_name_in_its_env(shell: Shell, tmp_path: Path) -> None:
    [card] = shell.json("import", balancer(tmp_path / "dqn.cleanrl_model"), "--env", CARTPOLE)["imported"]
    digest = card["artifact"]["digest"]
    shell("checkpoints", "activate", digest)
    words = ("--episodes", 1, "--fps", 10_000, "--detach")
    # As two sessions with the same seeds; the name has the same meaning in both forms.
    runs = shell.json("play", CARTPOLE, "--actor", "default", "--versus", "policy:default", *words)["runs"]
    assert [run["spec"]["play"]["actor"] for run in runs] == [f"policy:{digest}"] * 2
    for run in runs:
        shell.until(run["id"], "completed")
        [played] = played_by(shell, run["id"])
        assert played == [(f"policy:{digest}", 500)], "it keeps the pole up"
    refused = shell("play", "Acrobot-v1", "--actor", "default", code=2)
    assert f"actor default has no checkpoint in Acrobot-v1, it has in {CARTPOLE}" in refused.stderr
    unknown = shell("play", CARTPOLE, "--actor", "champion", code=2)
    assert "no actor is called 'champion'" in unknown.stderr


def played_by(shell: Shell, run_id: str) -> list[list[tuple[str, int]]]:
    """Who acted in each episode, and for how many steps."""
    with shell.client() as client:
        reader = TelemetryClient(client)
        return [
            actors_in(reader.episode(run_id, entry.episode.episode_id, entry.attempt))
            for entry in reader.episodes(run_id)
        ]


@asynccontextmanager
async def watched(shell: Shell, run_id: str) -> AsyncIterator[Viewer]:
    """The session as the page's server sees it, from its first frame on."""
    home = Home.at(Path(shell.environment["RUNSPINE_HOME"]))
    record = running_record(home)
    assert record is not None
    password = load_credentials(home).nats["dashboard"]
    account = NatsAccount(f"nats://{record.addresses['nats']}", "dashboard", password, "_INBOX_dashboard")
    async with NatsConnection(account, "test") as link, looking(link, run_id, fps=30) as viewer:
        await eventually(lambda: viewer.frames)
        yield viewer


PPO = "runner: builtin\nalgo: ppo\nenv: CartPole-v1\nseed: 11\ntotal_steps: 512\n"


@pytest.mark.long
async def test_what_was_trained_is_evaluated_in_batches_activated_played_and_handed_over(
    shell: Shell, tmp_path: Path
) -> None:
    trained = await asyncio.to_thread(shell.submit, run_file(tmp_path / "ppo.yaml", PPO))
    await asyncio.to_thread(shell.until, trained, "completed")
    scores, last = await asyncio.to_thread(
        shell.evaluate, f"{trained}:latest", "--episodes", 5, "--batches", 3
    )
    assert [len(score["returns"]) for score in scores] == [5, 5, 5]
    series = shell.json("metrics", last["run"]["id"], "eval/mean")["series"][0]
    assert series["y"] == [score["mean"] for score in scores]
    shell("checkpoints", "activate", f"{trained}:latest", "--actor", "student")
    [run] = shell.json("play", CARTPOLE, "--actor", "student", "--fps", 60, "--detach")["runs"]
    policy = run["spec"]["play"]["actor"]
    assert policy == f"policy:{last['run']['spec']['evaluation']['digest']}"
    async with watched(shell, run["id"]) as viewer:
        await eventually(lambda: viewer.frames[-1].hud.actor == policy)
        await viewer.tell(Control(actor=ChooseActor(person="ada", actor="human")))
        await eventually(lambda: viewer.frames[-1].hud.actor == "human")
        await viewer.tell(Control(input=Input(person="ada", number=1, key="ArrowRight", down=True)))
        await eventually(lambda: viewer.frames[-1].hud.input == 1)
        episode = viewer.frames[-1].hud.episode_id
        await viewer.tell(Control(actor=ChooseActor(person="ada", actor=policy)))
        await eventually(lambda: viewer.frames[-1].hud.actor == policy)
        await eventually(lambda: viewer.frames[-1].hud.episode_id != episode)
    await asyncio.to_thread(shell, "cancel", run["id"])
    shared = [(policy, "human", policy), ("human", policy)]
    await eventually(
        lambda: [each for each in played_by(shell, run["id"]) if tuple(who for who, _ in each) in shared],
        what="an episode that the policy goes on with after a person",
    )


WRITES_A_CLIP = """
import os, pathlib
pathlib.Path("videos").mkdir()
pathlib.Path("videos/rl-video-episode-0.mp4").write_bytes(os.environ["RUNSPINE_RUN_ID"].encode())
"""


async def test_every_page_learns_from_the_log_of_new_and_of_pruned_files(shell: Shell) -> None:
    """Also of those that came while the orchestrator was away."""
    endpoint = find_endpoint(shell.environment)
    settings = DashboardSettings(
        address=endpoint.trainer,
        telemetry_address=endpoint.telemetry,
        artifacts_address=endpoint.artifacts,
        token=SecretStr(endpoint.token),
    )
    command = ("--", sys.executable, "-c", WRITES_A_CLIP)
    async with Backend(settings) as backend:
        follower = RunFollower(backend.access(endpoint.token), RunTable())
        following = asyncio.create_task(follower.run())
        await eventually(lambda: not follower.trouble)
        run_id = await asyncio.to_thread(shell.submit, *command)
        before = await eventually(lambda: follower.artifacts.of(run_id))
        [clip] = await asyncio.to_thread(artifacts, shell, run_id, "video")
        await asyncio.to_thread(shell, "prune", clip["digest"], "--yes")
        await eventually(lambda: follower.artifacts.of(run_id) > before)

        pid = shell.json("status")["parts"]
        [orchestrator] = [part["pid"] for part in pid if part["name"] == "orchestrator"]
        os.kill(orchestrator, signal.SIGKILL)
        await eventually(lambda: follower.trouble)
        other = await asyncio.to_thread(shell.submit, *command)
        await eventually(lambda: follower.artifacts.of(other))
        await eventually(lambda: not follower.trouble)
        await cancel_and_wait(following)
