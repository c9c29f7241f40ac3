"""Language models as actors: what they are asked, how answers become actions, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from runspine.play.llm_settings import KEY, MODEL, OPTIONS, TIMEOUT, URL, LlmSettings, LlmSettingsError
from runspine.play.llm_settings import read_llm_settings as read
from runspine.services.worker.settings import WorkerSettings
from runspine.trainers.play.actors import NoActorError
from runspine.trainers.play.chat_actor import MAX_ANSWERS, ChatActor, chat_actor
from runspine.trainers.play.chat_endpoint import MAX_TRIES, ChatEndpoint, EndpointError
from runspine.trainers.play.chat_prompt import ChatPrompt, NotAnActionError, observed, speaks
from tests.kit.servers.chat import ChatReply, ChatRequest, ChatServer, chat_server, lake_walker

SECRET = "sk-never-to-be-shown"
LAKE = "FrozenLake-v1"


@pytest.fixture(scope="module")
def lake() -> Iterator[gym.Env[Any, Any]]:
    env = gym.make(LAKE, is_slippery=False)
    yield env
    env.close()


# What it is asked, and what it may answer


def test_the_question_holds_rules_map_actions_history_and_observation(lake: gym.Env[Any, Any]) -> None:
    prompt = ChatPrompt(lake, LAKE, ["left", "down", "right", "up"])
    prompt.came(np.int64(0), 1, 0.0)
    system, user = prompt.messages(np.int64(4))
    assert system["role"] == "system"
    for words in (f"You play {LAKE}", "crossing a frozen lake", "SFFF\nFHFH", "0 (left), 1 (down)"):
        assert words in system["content"]
    assert user["content"].splitlines() == [
        "At 0 you chose down and got reward 0.",
        "Now the observation is 4. Your action?",
    ]
    prompt.began()
    assert prompt.messages(4)[1]["content"] == "Now the observation is 4. Your action?"


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("2", 2),
        (" right\n", 2),
        ("I choose 2 (right).", 2),
        ('{"action": 1}', 1),
        ("**Down**", 1),
        ("-1 is no action, 3 is", 3),
    ],
)
def test_an_answer_that_names_one_action_is_that_action(
    lake: gym.Env[Any, Any], answer: str, action: int
) -> None:
    assert ChatPrompt(lake, LAKE, ["left", "down", "right", "up"]).action(answer) == action


@pytest.mark.parametrize("answer", ["", "4", "9" * 5000, "left or right", "1, then 2", "2.5", "upright"])
def test_an_answer_that_names_no_action_or_several_is_none(lake: gym.Env[Any, Any], answer: str) -> None:
    with pytest.raises(
        NotAnActionError, match=r"names (no action|several actions)\. The actions are 0 \(left"
    ):
        ChatPrompt(lake, LAKE, ["left", "down", "right", "up"]).action(answer)


def test_continuous_actions_are_lists_within_the_bounds() -> None:
    env = gym.make("Pendulum-v1")
    prompt = ChatPrompt(env, "Pendulum-v1")
    action = prompt.action("I push: [1.5]")
    assert (action.tolist(), action.dtype) == ([1.5], np.float32)
    for answer in ("1.5", "[9]", "[1, 2]", "[NaN]", "[]", '["a"]'):
        with pytest.raises(NotAnActionError, match=r"JSON list of 1 numbers, at least \[-2.0\]"):
            prompt.action(answer)
    assert observed(np.array([0.123456789, 1.0])) == "[0.12346, 1.0]"
    assert observed(np.zeros((210, 160, 3))) == "an array of shape (210, 160, 3)"
    assert not speaks(spaces.MultiDiscrete([2, 2]))
    env.close()


# Settings


def test_settings_come_from_variables_and_a_session_may_name_its_model() -> None:
    given = {
        URL: "http://127.0.0.1:1/v1/",
        MODEL: "small",
        KEY: SECRET,
        TIMEOUT: "5",
        OPTIONS: '{"top_p": 1}',
    }
    settings = read(given)
    assert settings == LlmSettings("http://127.0.0.1:1/v1", "small", SECRET, 5.0, {"top_p": 1})
    assert SECRET not in repr(settings)
    assert read(given, "large").model == "large"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "set RUNSPINE_LLM_URL on the worker"),
        ({URL: "http://127.0.0.1:1/v1"}, "name it as llm:MODEL, or set RUNSPINE_LLM_MODEL"),
        ({URL: "file:///etc/passwd", MODEL: "m"}, "RUNSPINE_LLM_URL is not an address"),
        ({URL: "http://u:p@host/v1", MODEL: "m"}, "the key belongs into RUNSPINE_LLM_KEY"),
        ({URL: "http://host/v1", MODEL: "m", TIMEOUT: "x"}, "RUNSPINE_LLM_TIMEOUT"),
        ({URL: "http://host/v1", MODEL: "m", OPTIONS: "{"}, "RUNSPINE_LLM_OPTIONS is not JSON"),
        ({URL: "http://host/v1", MODEL: "m", OPTIONS: '{"stream": true}'}, "sets model, messages or stream"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, str], words: str, lake: gym.Env[Any, Any]) -> None:
    with pytest.raises(LlmSettingsError, match=words):
        read(given)
    with pytest.raises(NoActorError, match=words):
        chat_actor("llm", given, lake, LAKE)


def test_the_worker_refuses_a_wrong_setting_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "ftp://host")
    monkeypatch.setenv(KEY, "abc")
    with pytest.raises(SystemExit, match=r"RUNSPINE_LLM_KEY: .*shorter than 4") as stopped:
        WorkerSettings.from_environment()
    assert "RUNSPINE_LLM_URL" in str(stopped.value)
    assert "abc" not in str(stopped.value)


# The endpoint


def endpoint(server: ChatServer, seconds: float = 30.0) -> tuple[ChatEndpoint, list[float]]:
    pauses: list[float] = []
    return ChatEndpoint(LlmSettings(server.url, "m", SECRET, seconds, {"top_p": 0.5}), pauses.append), pauses


def test_a_request_carries_model_messages_options_and_key() -> None:
    with chat_server(lambda request: "hello") as server:
        assert endpoint(server)[0].ask([{"role": "user", "content": "?"}]) == "hello"
    (request,) = server.requests
    assert (request.path, request.key) == ("/v1/chat/completions", SECRET)
    assert request.body == {"model": "m", "messages": [{"role": "user", "content": "?"}], "top_p": 0.5}


def test_trouble_that_may_pass_is_tried_again_and_not_for_ever() -> None:
    replies: list[str | ChatReply] = [
        ChatReply(429, "{}", {"Retry-After": "2"}),
        ChatReply(503, "busy"),
        "there",
    ]
    with chat_server(lambda request: replies.pop(0)) as server:
        asked, pauses = endpoint(server)
        assert asked.ask([]) == "there"
        assert pauses == [2.0, 2.0], "as the server asks, then twice the first pause"
        server.model = lambda request: ChatReply(500, '{"error": {"message": "no memory"}}')
        with pytest.raises(EndpointError, match=rf"refuses with 500 .*: no memory \({MAX_TRIES} tries\)"):
            asked.ask([])
        assert len(server.requests) == 2 * MAX_TRIES


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (ChatReply(401, f'{{"error": {{"message": "bad key {SECRET}"}}}}'), "set RUNSPINE_LLM_KEY"),
        (ChatReply(400, f'{{"error": "no model {SECRET}"}}'), r"400 .*no model \[secret RUNSPINE_LLM_KEY\]"),
        (ChatReply(302, "", {"Location": "http://127.0.0.1:1/"}), "refuses with 302"),
        (ChatReply(200, "{}"), "does not answer as chat completions do"),
        (ChatReply(200, "x" * (1 << 20) + "y"), "more than 1,048,576 bytes"),
    ],
)
def test_trouble_that_stays_is_reported_once_without_the_key(reply: ChatReply, words: str) -> None:
    with chat_server(lambda request: reply) as server, pytest.raises(EndpointError, match=words) as trouble:
        endpoint(server)[0].ask([])
    assert len(server.requests) == 1
    assert SECRET not in str(trouble.value)
    assert server.url in str(trouble.value)


def test_a_server_that_repeats_the_key_does_not_bring_it_onto_the_record() -> None:
    with chat_server(lambda request: f"your key is {request.key}") as server:
        assert endpoint(server)[0].ask([]) == "your key is [secret RUNSPINE_LLM_KEY]"


def test_a_server_that_is_silent_or_gone_is_given_up() -> None:
    asked_enough = threading.Event()

    def silent(request: ChatRequest) -> str:
        asked_enough.wait(60)
        return "too late"

    with chat_server(silent) as server:
        with pytest.raises(EndpointError, match=r"has not answered for 0.05 s \(3 tries\)"):
            endpoint(server, 0.05)[0].ask([])
        asked_enough.set()
    with pytest.raises(EndpointError, match=r"cannot be reached: .*\(3 tries\)"):
        endpoint(server)[0].ask([])


# The actor


def actor(server: ChatServer, lake: gym.Env[Any, Any]) -> ChatActor:
    return ChatActor("llm", LlmSettings(server.url, "m", SECRET), lake, LAKE, lambda seconds: None)


def test_it_walks_over_the_lake_and_every_turn_is_on_record(lake: gym.Env[Any, Any]) -> None:
    with chat_server(lake_walker) as server:
        made = actor(server, lake)
        state, _ = lake.reset(seed=1)
        done = False
        actions = []
        while not done:
            actions.append(made.act(state))
            state, reward, done, _, _ = lake.step(actions[-1])
            made.came(state, float(reward), done, False)
    assert (actions, reward) == ([1, 1, 2, 2, 1, 2], 1)
    turns = made.turns()
    assert [turn["action"] for turn in turns] == actions
    prompt = ChatPrompt(lake, LAKE, ["left", "down", "right", "up"])
    assert [prompt.action(turn["answer"]) for turn in turns] == actions, "without the endpoint"
    assert [turn["prompt"] for turn in turns] == [request.body["messages"] for request in server.requests]
    assert "At 4 you chose down and got reward 0" in turns[2]["prompt"][-1]["content"]
    assert SECRET not in str(turns)
    assert made.turns() == []


def test_it_is_asked_again_with_the_reason_and_gives_up_after_three_answers(lake: gym.Env[Any, Any]) -> None:
    replies: list[str] = ["Hm.", "left or right", "right"]
    with chat_server(lambda request: replies.pop(0) if replies else "no idea") as server:
        made = actor(server, lake)
        assert made.act(0) == 2
        assert "names several actions" in server.requests[2].question
        assert [bool(turn["problem"]) for turn in made.turns()] == [True, True, False]
        with pytest.raises(
            NoActorError, match="m has named no legal action in 3 answers, the last: 'no idea'"
        ):
            made.act(0)
        assert len(made.turns()) == MAX_ANSWERS
    with pytest.raises(NoActorError, match="cannot be reached"):
        made.act(0)
    (turn,) = made.turns()
    assert "cannot be reached" in turn["problem"]


def test_it_refuses_actions_that_words_cannot_express() -> None:
    given = {URL: "http://127.0.0.1:1/v1", MODEL: "m"}
    made: Callable[..., Any] = gym.Env
    env = made()
    env.action_space = spaces.MultiBinary(3)
    with pytest.raises(NoActorError, match="words cannot express"):
        chat_actor("llm", given, env, "Mine-v0")
