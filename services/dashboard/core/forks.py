"""Which of the built-in algorithms can learn where an episode was recorded. Pure."""

from __future__ import annotations

from runspine.replay.record import Record


def algos_for(record: Record) -> list[str]:
    """By what was done and seen there, the likeliest first."""
    if not record.is_scalar:
        return ["ppo", "sac"]
    reset = record.said.reset
    numbered = reset.HasField("observation") and not reset.observation.shape
    return ["qlearning", "ppo", "dqn"] if numbered else ["ppo", "dqn"]
