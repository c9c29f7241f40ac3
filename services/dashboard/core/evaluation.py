"""The run that evaluates a checkpoint. Pure; the time is given."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.errors import Invalid
from runspine.wire.v1.artifacts_pb2 import CheckpointCard
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec


def evaluation_of(
    card: CheckpointCard,
    runners: Iterable[RunnerInfo],
    *,
    now: int,
    env: str = "",
    episodes: int = 20,
    stochastic: bool = False,
    trained: RunSpec | None = None,
) -> RunSpec:
    """In the checkpoint's own env unless another is named; `trained` is the spec of the run that made it."""
    chosen = env or card.env
    if not chosen:
        raise Invalid("nothing says which env this checkpoint is for: name one")
    seed = card.seed if card.HasField("seed") else 1
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
    """The one that made it if it evaluates; the builtin one reads every format, too."""
    able = {info.name for info in runners if EVALUATE in info.modes and not info.not_ready}
    return maker if maker in able else "builtin"
