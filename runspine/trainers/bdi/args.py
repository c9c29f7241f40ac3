"""Parameters of a BDI run. The runner parses this file as text, so that nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from runspine.trainers.builtin.ranges import Range


@dataclass
class Args:
    """Tabular Q-learning by a BDI agent: its AgentSpeak plans decide when to explore and when to exploit."""

    seed: int = 1
    """seed of everything random"""
    env_id: str = "FrozenLake-v1"
    """environment with discrete observations and actions, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 100_000
    """environment steps of the whole run"""
    learning_rate: Annotated[float, Range(0, 1)] = 0.1
    """how far a value moves towards its goal at the start"""
    end_learning_rate: Annotated[float, Range(0, 1)] = 0.005
    """how far at the end; it falls geometrically"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    start_e: Annotated[float, Range(0, 1)] = 1.0
    """share of random actions at the start"""
    end_e: Annotated[float, Range(0, 1)] = 0.0
    """share of random actions after exploration"""
    exploration_fraction: Annotated[float, Range(0, 1)] = 0.6
    """part of the run over which that share falls"""

    plans: str = "learner"
    """AgentSpeak plans: one that is shipped (learner), or the path of a file on the worker"""
    plan_text: str = ""
    """AgentSpeak plans, as text; instead of a file"""
    agent_name: str = "learner"
    """the agent's name on the embedded XMPP server"""
    mind_seconds: Annotated[float, Range(0.05)] = 0.5
    """least time between two records of the agent's mind"""

    xmpp_host: str = ""
    """XMPP server to use; empty: an embedded one on loopback for the duration of the run"""
    xmpp_port: Annotated[int, Range(1, 65535)] = 5222
    """port of that server"""
    xmpp_jid: str = ""
    """the agent's address there, such as learner@example.org; its password is the secret XMPP_PASSWORD"""
    xmpp_verify: bool = True
    """whether the server's certificate must be valid"""

    checkpoint_every: Annotated[int, Range(0)] = 0
    """steps between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by steps alone"""


# Set by fields of the spec itself.
FROM_SPEC = frozenset({"env_id", "env_kwargs", "seed", "total_timesteps"})
# Arguments that may differ between a checkpoint and the attempt that resumes from it.
RESUME_MAY_CHANGE = frozenset(
    {"total_timesteps", "checkpoint_every", "checkpoint_seconds", "mind_seconds", "plans", "agent_name"}
    | {"xmpp_host", "xmpp_port", "xmpp_jid", "xmpp_verify"}
)


def filled(given: dict[str, Any]) -> Args:
    """Arguments from given values. Raises ValueError for an unknown name or a value of another type."""
    kinds = {each.name: type(each.default) for each in fields(Args)}
    for name, value in given.items():
        if name not in kinds:
            raise ValueError(f"{name} is not a parameter of the BDI agent")
        wanted = kinds[name]
        if wanted is float and type(value) is int:
            given = {**given, name: float(value)}
        elif type(value) is not wanted:
            raise ValueError(f"{name} is {value!r}, and {wanted.__name__} is expected")
    return Args(**given)


def curiosity(args: Args, step: int) -> float:
    """Share of random actions: falls linearly, then stays."""
    span = args.exploration_fraction * args.total_timesteps
    share = min(step / span, 1.0) if span else 1.0
    return args.start_e + share * (args.end_e - args.start_e)


def learning_rate(args: Args, step: int) -> float:
    """Falls geometrically: large while values are far off, small when only noise is left to average."""
    low, high = args.end_learning_rate, args.learning_rate
    if low <= 0 or high <= 0:
        return high + (low - high) * step / args.total_timesteps
    return float(high * (low / high) ** (step / args.total_timesteps))
