"""The spec of a run that evaluates a checkpoint. Pure: the time is a parameter."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.domain.defaults import DEFAULT_SEED
from runspine.errors import InvalidError
from runspine.wire.v1.artifacts_pb2 import CheckpointCard
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec


def evaluation_spec(
    card: CheckpointCard,
    runners: Iterable[RunnerInfo],
    *,
    now: int,
    env: str = "",
    episodes: int = 20,
    stochastic: bool = False,
    trained: RunSpec | None = None,
) -> RunSpec:
    """Evaluate in the checkpoint's env unless `env` names another; `trained` is the spec of its run.

    Raises InvalidError when no env is known.
    """
    chosen = env or card.env
    if not chosen:
        raise InvalidError("it is unknown which env this checkpoint is for: name one")
    seed = card.seed if card.HasField("seed") else DEFAULT_SEED
    spec = RunSpec(
        name=f"{chosen}__{card.algo or 'policy'}-eval__{seed}__{now}",
        runner=_runner(card.runner, runners),
        algo=card.algo,
        env=chosen,
        seed=seed,
        mode=EVALUATE,
        project=card.project,
        evaluation=Evaluation(
            digest=card.artifact.digest,
            run_id="" if card.source else card.artifact.run_id,
            name=card.artifact.name.rpartition("/")[2],
            episodes=episodes,
            stochastic=stochastic,
        ),
    )
    if trained is not None and chosen == trained.env:
        for name, value in trained.env_kwargs.items():
            spec.env_kwargs[name].CopyFrom(value)
    return spec


def _runner(maker: str, runners: Iterable[RunnerInfo]) -> str:
    """The runner that made the checkpoint if it can evaluate; else builtin, which reads every format."""
    able = {info.name for info in runners if EVALUATE in info.modes and not info.not_ready}
    return maker if maker in able else "builtin"
