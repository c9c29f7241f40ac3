"""Play through a whole stack: from keys on NATS to steps on the log, and all that follows from those."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.replay import EpisodeRecord
from runspine.replay.episode_lookup import find_episode
from runspine.wire.v1.live_pb2 import ChooseActor, Control, Hud, Input
from runspine.wire.v1.telemetry_pb2 import SqlRequest
from tests.kit.paths import ROOT
from tests.kit.player import balancer
from tests.kit.stack import Shell, damaged
from tests.kit.viewer import Viewer, looking
from tests.kit.waiting import until

pytestmark = pytest.mark.long

FROZEN_LAKE = ("FrozenLake-v1", "--set", "env_kwargs.is_slippery=false")
PLANS = ROOT / "runspine/trainers/bdi/plans/learner.asl"
GOAL = ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight"]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("play") / "home")
    shell("up", "--detach", "--slots", "3")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def checkpoint(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a policy that keeps CartPole's pole up."""
    path = balancer(tmp_path_factory.mktemp("made") / "dqn.cleanrl_model")
    (card,) = shell.json("import", path, "--env", "CartPole-v1")["imported"]
    return str(card["artifact"]["digest"])


class Person:
    """Somebody at the page, as the page's server speaks for them."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.number = 0
        # Seconds from each key to the picture of its step.
        self.waits: list[float] = []

    @property
    def hud(self) -> Hud:
        return self.viewer.frames[-1].hud if self.viewer.frames else Hud()

    async def press(self, key: str) -> None:
        self.number += 1
        number, began = self.number, time.perf_counter()
        await self.viewer.tell(Control(input=Input(person="ada", number=number, key=key, down=True)))
        await self.until(lambda: self.hud.input >= number)
        self.waits.append(time.perf_counter() - began)
        self.number += 1
        await self.viewer.tell(Control(input=Input(person="ada", number=self.number, key=key)))

    async def choose(self, actor: str) -> None:
        await self.viewer.tell(Control(actor=ChooseActor(person="ada", actor=actor)))

    async def until(self, probe: Callable[[], Any], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not probe():
            assert time.monotonic() < deadline, f"waited in vain: {self.hud}"
            await asyncio.sleep(0.001)


@asynccontextmanager
async def person(shell: Shell, run_id: str) -> AsyncIterator[Person]:
    home = Home.at(Path(shell.environment["RUNSPINE_HOME"]))
    record = running_record(home)
    assert record is not None
    password = load_credentials(home).nats["dashboard"]
    account = NatsAccount(f"nats://{record.addresses['nats']}", "dashboard", password, "_INBOX_dashboard")
    async with NatsConnection(account, "test") as link, looking(link, run_id, fps=30) as viewer:
        someone = Person(viewer)
        await someone.until(lambda: viewer.frames)
        yield someone


def submitted(shell: Shell, *arguments: object) -> str:
    (run,) = shell.json("play", *arguments, "--detach")["runs"]
    return str(run["id"])


def episodes(shell: Shell, run_id: str, count: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        found[:] = shell.json("episodes", run_id)["episodes"]
        return len(found) >= count

    until(enough)
    return found


def proven(shell: Shell, run_id: str, episode: str = "0") -> None:
    """Check by the exit code that the episode replays exactly."""
    shell("replay", run_id, episode, code=0)


@pytest.mark.long  # In tests/e2e a person plays the same in the page.
async def test_a_person_plays_and_the_episode_is_listed_replays_and_becomes_a_dataset(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(shell, *FROZEN_LAKE)
    async with person(shell, run_id) as ada:
        assert ada.hud.waiting
        assert {hint.key for hint in ada.hud.keys} == set(GOAL) | {"ArrowLeft", "ArrowUp"}
        for key in GOAL:
            await ada.press(key)
    listed = await asyncio.to_thread(episodes, shell, run_id)
    assert (listed[0]["episode"]["steps"], listed[0]["episode"]["return"]) == (6, 1.0)
    await asyncio.to_thread(proven, shell, run_id)
    await asyncio.to_thread(shell, "cancel", run_id)
    out = ("--out", tmp_path, "--dataset-id", "ada/lake-v0")
    await asyncio.to_thread(shell, "export", run_id, "--to", "minari", *out)
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (episode,) = minari.load_dataset("ada/lake-v0").iterate_episodes()
    assert episode.actions.tolist() == [1, 1, 2, 2, 1, 2]


@pytest.mark.long  # In tests/e2e as well.
async def test_control_goes_to_a_policy_and_back_and_a_damaged_one_changes_nothing(
    shell: Shell, checkpoint: str
) -> None:
    bad = await damaged(shell)
    # Slowly: after 500 steps CartPole is over.
    run_id = submitted(shell, "CartPole-v1", "--fps", "5")
    async with person(shell, run_id) as ada:
        await ada.press("ArrowRight")
        await ada.choose(f"policy:{checkpoint}")
        await ada.until(lambda: ada.hud.actor == f"policy:{checkpoint}" and ada.hud.episode_step > 10)
        await ada.choose(f"policy:{bad}")
        await ada.until(lambda: "does not take over" in ada.hud.notice)
        assert f"policy {checkpoint[:12]} goes on" in ada.hud.notice
        assert "SHA-256 differs" in ada.hud.notice
        await ada.choose("policy:" + "0" * 64)
        await ada.until(lambda: "gone from S3" in ada.hud.notice)
        at = ada.hud.episode_step
        await ada.until(lambda: ada.hud.episode_step > at + 5)
        await ada.choose("human")
        await ada.until(lambda: ada.hud.actor == "human" and ada.hud.waiting)
        await ada.press("ArrowLeft")
    await asyncio.to_thread(episodes, shell, run_id)
    await asyncio.to_thread(proven, shell, run_id)
    query = "SELECT DISTINCT actor FROM steps WHERE episode_id = '0-0' ORDER BY actor"
    received = await asyncio.to_thread(rows, shell, run_id, query)
    assert received == [{"actor": "human"}, {"actor": f"policy:{checkpoint}"}]
    await asyncio.to_thread(shell, "cancel", run_id)


def rows(shell: Shell, run_id: str, query: str) -> list[dict[str, Any]]:
    with shell.client() as client:
        parts = client.stream_telemetry("Sql", SqlRequest(run_id=run_id, query=query))
        data = b"".join(part.arrow for part in parts)
    return pa.ipc.open_stream(data).read_all().to_pylist()


@pytest.mark.long
async def test_what_was_played_can_be_learnt_from(shell: Shell, checkpoint: str, tmp_path: Path) -> None:
    run_id = submitted(shell, "CartPole-v1", "--fps", "100", "--episodes", "2")
    async with person(shell, run_id) as ada:
        await ada.press("ArrowLeft")
        await ada.choose(f"policy:{checkpoint}")
        await ada.until(lambda: ada.hud.episode_step > 100)
    await asyncio.to_thread(episodes, shell, run_id, 2)
    out = ("--out", tmp_path, "--dataset-id", "ada/pole-v0")
    await asyncio.to_thread(shell, "export", run_id, "--to", "minari", *out)
    await asyncio.to_thread(shell, "datasets", "add", tmp_path / "ada" / "pole-v0", "--name", "played")
    file = tmp_path / "bc.yaml"
    file.write_text("runner: corl\nalgo: bc\ndataset: {name: played}\ntotal_steps: 300\n")
    received = await asyncio.to_thread(shell, "train", file)
    assert "completed" in received.stdout


@pytest.mark.long
def test_two_actors_play_the_same_seeds_and_end_by_themselves(shell: Shell, checkpoint: str) -> None:
    arguments = ("--actor", f"policy:{checkpoint[:12]}", "--versus", "random", "--episodes", 2, "--fps", 2000)
    lines = shell("play", "CartPole-v1", *arguments).stdout
    runs = [line["run"] for line in shell.json("ls", "--limit", 2)["runs"]]
    assert {run["phase"] for run in runs} == {"completed"}, lines
    assert len({run["spec"]["labels"]["versus"] for run in runs}) == 1
    first = {run["spec"]["play"]["actor"]: episodes(shell, run["id"], 2) for run in runs}
    assert {each["episode"]["steps"] for each in first[f"policy:{checkpoint}"]} == {500}
    assert "/play?runs=" in lines


def test_an_activated_checkpoint_plays_by_the_name_of_its_actor(shell: Shell, checkpoint: str) -> None:
    shell("checkpoints", "activate", checkpoint, "--actor", "default")
    shell("play", "CartPole-v1", "--actor", "default", "--episodes", 1, "--fps", 2000)
    (line,) = shell.json("ls", "--limit", 1)["runs"]
    assert line["run"]["spec"]["play"]["actor"] == f"policy:{checkpoint}"
    assert line["run"]["phase"] == "completed"
    emitted = shell("play", "CartPole-v1", "--actor", "other", code=2).stderr
    assert "checkpoints activate REFERENCE --actor other" in emitted


@pytest.mark.long  # In tests/e2e as well.
def test_an_actor_is_known_as_soon_as_its_checkpoint_is(shell: Shell, checkpoint: str) -> None:
    found = shell.json("actors", "--env", "CartPole-v1")["actors"]
    assert [actor["name"] for actor in found[:2]] == ["human", "random"]
    assert f"policy:{checkpoint}" in {actor["name"] for actor in found}
    other = shell.json("actors", "--env", "FrozenLake-v1")["actors"]
    assert f"policy:{checkpoint}" not in {actor["name"] for actor in other}


@pytest.mark.long
def test_who_does_not_fit_is_refused_before_anything_is_submitted(shell: Shell, checkpoint: str) -> None:
    before = shell.json("ls", "--limit", 1)["runs"]
    emitted = shell("play", "FrozenLake-v1", "--actor", f"policy:{checkpoint}", code=2).stderr
    assert f"{checkpoint[:12]} does not fit FrozenLake-v1: its observations are" in emitted
    assert "runspine actors --env FrozenLake-v1" in emitted
    assert "or play in CartPole-v1, where it was made" in emitted
    emitted = shell("play", "FrozenLake-v1", "--actor", "bdi", code=2).stderr
    assert "no BDI agent for FrozenLake-v1 yet: train one" in emitted
    emitted = shell("play", "CartPole-v1", "--actor", f"bdi:{PLANS}", code=2).stderr
    assert "needs numbered states and actions, and CartPole-v1 sees Box(4)" in emitted
    assert shell.json("ls", "--limit", 1)["runs"] == before


@pytest.mark.long
def test_a_bdi_agent_plays_with_plans_from_a_file_and_its_steps_and_mind_are_on_record(shell: Shell) -> None:
    run_id = submitted(shell, *FROZEN_LAKE, "--actor", f"bdi:{PLANS}", "--episodes", 1, "--fps", 500)
    episodes(shell, run_id)
    proven(shell, run_id)
    assert rows(shell, run_id, "SELECT DISTINCT actor FROM steps") == [{"actor": "bdi"}]
    until(lambda: shell.json("show", run_id)["run"]["phase"] == "completed", 30)
    assert shell.json("mind", run_id)["goals"] == ["live"]


@pytest.mark.long
def test_the_best_agent_of_a_bdi_run_plays_when_none_is_named(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bdi.yaml"
    file.write_text(
        "runner: spade_bdi\nalgo: qlearning\nenv: FrozenLake-v1\n"
        "env_kwargs: {is_slippery: false}\ntotal_steps: 8000\n"
    )
    shell("train", file)
    until(lambda: shell.json("actors", "--env", "FrozenLake-v1")["actors"][2:], 60)
    (best, *_) = shell.json("actors", "--env", "FrozenLake-v1")["actors"][2:]
    assert best["kind"] == "bdi"
    run_id = submitted(shell, *FROZEN_LAKE, "--actor", "bdi", "--episodes", 2, "--fps", 500)
    found = episodes(shell, run_id, 2)
    assert [each["episode"]["return"] for each in found] == [1.0, 1.0]
    assert rows(shell, run_id, "SELECT DISTINCT actor FROM steps") == [{"actor": best["name"]}]
    emitted = shell("play", "FrozenLake-v1", "--actor", f"policy:{best['name'][4:]}", code=2).stderr
    assert "is a BDI agent: name it with --actor bdi:" in emitted


@pytest.mark.long
def test_a_training_from_a_fork_completes_and_begins_with_the_recorded_steps(shell: Shell) -> None:
    parent = submitted(shell, "CartPole-v1", "--actor", "random", "--episodes", 1, "--fps", 2000)
    steps = episodes(shell, parent)[0]["episode"]["steps"]
    small = ("--set", "total_steps=256", "--set", "params.num_steps=64", "--set", "params.num_envs=2")
    fork = ("fork", parent, "0", "--step", steps - 3, "--algo", "ppo")
    assert "completed" in shell(*fork, *small).stdout
    run = shell.json("ls", "--limit", 1)["runs"][0]["run"]
    lineage = run["spec"]["fork"]
    assert (lineage["run_id"], lineage["step"], run["spec"]["env"]) == (parent, steps - 3, "CartPole-v1")
    with shell.client() as client:
        old, new = find_episode(client, parent, "0"), find_episode(client, run["id"], "id:0-0")
    assert_same(old, new, steps - 3)
    assert new.length > steps - 3
    proven(shell, run["id"], "id:0-0")
    emitted = shell("fork", parent, "0", "--step", steps, "--algo", "ppo", code=2).stderr
    assert f"fork it at {steps - 1} or before" in emitted


def assert_same(old: EpisodeRecord, new: EpisodeRecord, steps: int) -> None:
    """Bit for bit."""
    for step in range(steps):
        one, other = old.step(step), new.step(step)
        assert one.observation.tobytes() == other.observation.tobytes()
        assert one._replace(observation=None) == other._replace(observation=None)


@pytest.mark.long
def test_a_fork_from_the_command_line_repeats_the_first_steps_bit_for_bit(
    shell: Shell, checkpoint: str
) -> None:
    arguments = ("--actor", "random", "--episodes", 1, "--fps", 2000)
    parent = submitted(shell, "CartPole-v1", *arguments)
    steps = episodes(shell, parent)[0]["episode"]["steps"]
    fork = ("--fork", f"{parent}:0:{steps - 3}", "--actor", f"policy:{checkpoint}")
    child = submitted(shell, *fork, "--episodes", 1, "--fps", 2000)
    episodes(shell, child)
    proven(shell, child)
    with shell.client() as client:
        old, new = (find_episode(client, run_id, "0") for run_id in (parent, child))
    assert_same(old, new, steps - 3)
    assert new.length > steps - 3
    actors = dict.fromkeys(block.actor for block in new.response.blocks)
    assert list(actors) == [f"fork:{parent}:0", f"policy:{checkpoint}"]
