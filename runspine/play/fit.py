"""Whether an actor made in one env can act in another, by their spaces.

An env may run any code: `python -m runspine.play.fit ENV KWARGS` makes one in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

TIMEOUT_SECONDS = 30.0


class Spaces(NamedTuple):
    """Kinds are Gymnasium's names, empty when unknown; sizes are numbers when flat, 0 when unknown."""

    observations: str = ""
    inputs: int = 0
    actions: str = ""
    outputs: int = 0

    @property
    def is_table(self) -> bool:
        return self.observations == self.actions == "Discrete"

    def __str__(self) -> str:
        return f"sees {_words(self.observations, self.inputs)} and has {_words(self.actions, self.outputs)}"


def _words(kind: str, size: int) -> str:
    return f"{kind}({size})" if kind else f"{size} numbers"


def misfit(made: Spaces, env: Spaces) -> str:
    """Which of the two spaces differs, as a sentence; empty when nothing is known to differ."""
    for what, their_kind, our_kind, theirs, ours in (
        ("observations", made.observations, env.observations, made.inputs, env.inputs),
        ("actions", made.actions, env.actions, made.outputs, env.outputs),
    ):
        other_kind = their_kind and our_kind and their_kind != our_kind
        if other_kind or (theirs and ours and theirs != ours):
            return f"its {what} are {_words(their_kind, theirs)}, and those here are {_words(our_kind, ours)}"
    return ""


def spaces_of(env_id: str, kwargs: Mapping[str, Any]) -> Spaces | None:
    """Spaces of an env that can be made here; None when it cannot, though a worker may still make it."""
    command = [sys.executable, "-m", "runspine.play.fit", env_id, json.dumps(dict(kwargs))]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, text=True, check=True)
        return Spaces(*json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return None


def _made(env_id: str, kwargs: dict[str, Any]) -> Spaces:
    from gymnasium import spaces

    from runspine.replay.env_factory import make_env
    from runspine.wire.v1.telemetry_pb2 import EnvMade

    env = make_env(EnvMade(env_id=env_id), kwargs)
    seen, done = env.observation_space, env.action_space
    env.close()
    return Spaces(type(seen).__name__, spaces.flatdim(seen), type(done).__name__, spaces.flatdim(done))


if __name__ == "__main__":
    # What an env prints while it is made goes to stderr: stdout is for the result.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(_made(sys.argv[1], json.loads(sys.argv[2])), answer)
