"""Built-in algorithms that can train in the env of a recorded episode. Pure."""

from __future__ import annotations

from runspine.replay.record import EpisodeRecord


def algos_for(record: EpisodeRecord) -> list[str]:
    """Algorithms for the recorded action and observation spaces, the most suitable first."""
    if not record.is_scalar:
        return ["ppo", "sac"]
    reset = record.response.reset
    numbered = reset.HasField("observation") and not reset.observation.shape
    return ["qlearning", "ppo", "dqn"] if numbered else ["ppo", "dqn"]
