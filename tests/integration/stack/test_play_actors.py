"""Language models in a session's process: their turns are on record, and people go on when they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from runspine.play.llm_settings import KEY, MODEL, URL
from runspine.replay import EpisodeRecord, Replay
from runspine.trainers.play.chat_prompt import ChatPrompt
from tests.kit.player import Game, actors_in
from tests.kit.servers.chat import ChatServer, chat_server, lake_walker

LAKE = ("--env-id", "FrozenLake-v1", "--env-kwargs", '{"is_slippery": false}', "--steps-per-second", 100)
SECRET = "sk-never-on-the-record"


def variables(server: ChatServer) -> dict[str, str]:
    return {URL: server.url, MODEL: "walker-7b", KEY: SECRET}


def turns_of(game: Game) -> list[dict[str, Any]]:
    return [line for line in game.lines if line["type"] == "turn"]


def check_secret(folder: Path) -> None:
    """The key is in none of the files that the session has left."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 2
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_language_model_plays_frozen_lake_and_its_turns_replay_without_it(tmp_path: Path) -> None:
    with chat_server(lake_walker) as server:
        actor = ("--actor", "llm", "--episodes", 1)
        game = Game(tmp_path / "g", *LAKE, *actor, variables=variables(server))
        game.trainer.succeed()
    assert {request.key for request in server.requests} == {SECRET}
    (first,) = game.end()
    assert actors_in(first) == [("llm", 6)]
    assert getattr(first.entry.episode, "return") == 1.0
    record = EpisodeRecord(first)
    assert Replay(record).verdict.exact
    turns = turns_of(game)
    env = gym.make("FrozenLake-v1", is_slippery=False)
    prompt = ChatPrompt(env, "FrozenLake-v1", ["left", "down", "right", "up"])
    actions = [int(record.step(step).action) for step in range(record.length)]
    assert [prompt.action(turn["answer"]) for turn in turns] == [turn["action"] for turn in turns] == actions
    assert [turn["prompt"] for turn in turns] == [request.body["messages"] for request in server.requests]
    assert {turn["episode_id"] for turn in turns} == {first.entry.episode.episode_id}
    assert [turn["step"] for turn in turns] == list(range(6))
    check_secret(tmp_path / "g")
    env.close()


def test_a_person_goes_on_when_the_model_fails_and_shares_control_with_one_that_does_not(
    tmp_path: Path,
) -> None:
    with chat_server(lambda request: "I would rather not.") as server:
        game = Game(tmp_path / "g", *LAKE, variables=variables(server))
        game.until(lambda: game.hud.get("waiting"))
        game.choose("llm")
        assert "walker-7b has named no legal action in 3 answers" in game.noticed(
            "llm cannot go on, human does"
        )
        for absent in ("script:nobody", "hybrid:script:nobody"):
            game.choose(absent)
            game.noticed(f"{absent.replace('hybrid:', 'hybrid ')} does not take over, human goes on")
        server.model = lake_walker
        game.choose("hybrid:llm")
        game.until(lambda: game.hud["actor"] == "hybrid:llm" and game.hud["waiting"])
        for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
            game.press(key)
        game.until(lambda: any(line["type"] == "episode" for line in game.lines))
    first, *_ = game.end()
    assert actors_in(first) == [("human", 1), ("llm", 1)] * 3
    assert getattr(first.entry.episode, "return") == 1.0
    assert Replay(EpisodeRecord(first)).verdict.exact
    turns = turns_of(game)
    assert [bool(turn["problem"]) for turn in turns] == [True] * 3 + [False] * 3
    check_secret(tmp_path / "g")
