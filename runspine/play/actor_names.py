"""Names of actors in specs, orders and telemetry. Pure; imports nothing heavy.

human  random  policy:SHA256  bdi[:SHA256]  script:ENTRY-POINT  llm[:MODEL]  hybrid:<any but human>
"""

from __future__ import annotations

import re

HUMAN, RANDOM, POLICY, BDI, SCRIPT, LLM, HYBRID = (
    "human",
    "random",
    "policy",
    "bdi",
    "script",
    "llm",
    "hybrid",
)
KINDS = (HUMAN, RANDOM, POLICY, BDI, SCRIPT, LLM, HYBRID)
# Kinds whose name ends with the digest of a checkpoint.
WITH_CHECKPOINT = (POLICY, BDI)
FORMS = (
    "human, random, policy:<sha256>, bdi[:<sha256>], script:<name>, llm[:<model>] "
    "or hybrid:<one of these but human>"
)
_ACTOR = re.compile(
    r"(human|(hybrid:)?(random|bdi|(policy|bdi):[0-9a-f]{64}"
    r"|script:[A-Za-z0-9_][\w.-]{0,63}|llm(:[A-Za-z0-9_][\w.:/@-]{0,127})?))\Z",
    re.ASCII,
)


def is_actor(name: str) -> bool:
    """Whether the name has the form of one."""
    return _ACTOR.match(name) is not None


def kind_of(name: str) -> str:
    return name.partition(":")[0]


def agent_of(name: str) -> str:
    """The actor without people: what comes after `hybrid:`, else the name itself."""
    return name.removeprefix(f"{HYBRID}:")


def checkpoint_of(name: str) -> str:
    """The digest of the actor's checkpoint as the name gives it; empty when it has none."""
    kind, _, digest = agent_of(name).partition(":")
    return digest if kind in WITH_CHECKPOINT else ""


def shown(name: str) -> str:
    """The name with a short digest, for people."""
    digest = checkpoint_of(name)
    shorter = name.removesuffix(f":{digest}") + f" {digest[:12]}" if digest else name
    return shorter.replace(f"{HYBRID}:", f"{HYBRID} ", 1)
