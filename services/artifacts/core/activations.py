"""Which checkpoint each actor plays with in each env. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.wire.v1.artifacts_pb2 import Artifact


class Activation(NamedTuple):
    """A checkpoint that an actor plays with in an env."""

    actor: str
    env: str
    artifact: Artifact
    # The env in the fact: empty in those of earlier releases, which meant the env of the checkpoint.
    recorded_env: str


def activations(catalog: ArtifactCatalog, ranking: Ranking) -> Iterator[Activation]:
    """Every activation, by actor and env. A newer one for the same actor and env hides an old one."""
    seen: set[tuple[str, str]] = set()
    # Those with an env first: they are newer than those without.
    for (actor, recorded), place in sorted(
        catalog.actors.items(), key=lambda item: (not item[0][1], item[0])
    ):
        artifact = catalog.get(*place)
        if artifact is None:
            continue
        env = recorded or ranking.sources[artifact.run_id].env
        if (actor, env) not in seen:
            seen.add((actor, env))
            yield Activation(actor, env, artifact, recorded)


def activation_of(catalog: ArtifactCatalog, ranking: Ranking, actor: str, env: str) -> Activation | None:
    """What the actor plays with in the env."""
    found = activations(catalog, ranking)
    return next((each for each in found if (each.actor, each.env) == (actor, env)), None)
