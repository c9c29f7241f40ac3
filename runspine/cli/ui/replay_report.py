"""Result of `runspine replay`, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runspine.cli.ui.screen import echo
from runspine.replay import Divergence, EpisodeRecord, ReplayVerdict
from runspine.replay.divergence import first_difference, short
from runspine.sdk.encoding import plain
from runspine.text.values import escaped, number, size, span

if TYPE_CHECKING:
    from runspine.video.files import WrittenClip

KINDS = {"whole": "whole", "json": "whole", "hash": "by hash", "none": "not kept"}


class ReplayReport:
    """Collects the outcome of one replay and prints it."""

    def __init__(self, run_id: str, record: EpisodeRecord) -> None:
        self.run_id = run_id
        self.record = record
        self.clip: WrittenClip | None = None
        self._verdict: ReplayVerdict | None = None
        # Divergence that occurred only while frames were rendered.
        self.drawn: Divergence | None = None
        # Why no file was written; what the frames of a written one are.
        self.unfilmed = ""
        self.source = "env"
        self._stored = ""
        self._step: dict[str, Any] | None = None

    @property
    def is_stored(self) -> bool:
        return bool(self._stored)

    def verdict(self, verdict: ReplayVerdict) -> None:
        self._verdict = verdict

    def stored(self, why: str) -> None:
        """Report stored data only; nothing was simulated."""
        self._stored = why

    def step(self, number: int) -> None:
        found = self.record.step(number)
        seen, row = self.record.seen(number)
        self._step = {
            **found._asdict(),
            "action": plain(found.action),
            "return_so_far": float(self.record.rewards[: number + 1].sum()),
            "observation": seen.shown(row),
            "observation_kept": seen.kind,
            "verified": self._verified(number),
        }

    def plain(self) -> dict[str, Any]:
        verdict, record = self._verdict, self.record
        return {
            "run_id": self.run_id,
            "episode": self._episode(),
            "outcome": self._outcome(),
            "reason": self._stored or None,
            "verified_steps": verdict.steps if verdict else 0,
            "observations": record.kinds,
            "divergence": _divergence(self.drawn or (verdict.divergence if verdict else None)),
            "changed_packages": [
                {"package": c.package, "recorded": c.recorded, "now": c.now} for c in verdict.changed
            ]
            if verdict
            else [],
            "way": str(verdict.way) if verdict else None,
            "steps_per_second": round(self._speed()) if verdict else None,
            "step": self._step,
            "out": _clip(self.clip) | {"source": self.source} if self.clip else None,
            "unfilmed": self.unfilmed or None,
        }

    def echo(self) -> None:
        episode = self._episode()
        name = escaped(episode["env_id"] or "unknown env")
        index = "" if episode["index"] is None else f" {episode['index']}"
        echo(f"{name}  episode{index} ({escaped(episode['id'])}), slot {episode['slot']}", "bold")
        echo(f"  {episode['steps']:,} steps, return {number(episode['return'])}, {episode['end']}")
        if self.record.missing:
            echo(f"  {self.record.missing:,} steps are not on record; the others were simulated", "yellow")
        if self._verdict is None:
            self._echo_stored()
        elif self._verdict.exact:
            self._echo_exact(self._verdict)
        else:
            self._echo_diverged(self._verdict)
        if self._step is not None:
            self._echo_step(self._step)
        if self.drawn is not None:
            echo(f"✗ while rendering, the env {self.drawn}", "bold red")
            echo("  Frames from there on are stamped: they are not the original.", "red")
        if self.unfilmed:
            echo(f"  no file was written: {escaped(self.unfilmed)}", "red")
        if self.clip is not None:
            clip = self.clip
            what = f"{clip.frames:,} frames, {clip.fps} a second" if clip.frames > 1 else "1 frame"
            echo(f"  wrote {clip.path} ({clip.width}x{clip.height}, {what}, {size(clip.bytes)})")
            if self.source != "env" and self._verdict is not None:
                echo("  The env renders no frames; these are its observations.", "dim")

    def _echo_exact(self, verdict: ReplayVerdict) -> None:
        echo(f"✓ exact: {verdict.steps:,} steps re-simulated {verdict.way}, {span(verdict.seconds)}", "green")
        seen = set(self.record.kinds) - {"none"}
        same = f"rewards, ends and observations ({self._kinds()})" if seen else "rewards and ends"
        echo(f"  {same} match the record" + ("" if seen else "; observations were not kept"))
        for each in verdict.changed:
            echo(f"  exact although {each}", "dim")

    def _echo_diverged(self, verdict: ReplayVerdict) -> None:
        found = verdict.divergence
        assert found is not None
        echo(f"✗ DIVERGED {found.where} of {self.record.length:,}: {found.field}", "bold red")
        echo(f"  recorded  {escaped(short(found.recorded, 300))}")
        echo(f"  got       {escaped(short(found.got, 300))}")
        place = first_difference(found.recorded, found.got)
        if place:
            echo(f"  first     {list(place[0])}: {place[1]!r} and {place[2]!r}")
        echo(
            f"  The {verdict.steps:,} steps before it match the record. What follows is not the original.",
            "red",
        )
        for each in verdict.changed:
            echo(f"  {each}", "yellow")
        if not verdict.changed:
            echo("  No package differs. " + self._likely(), "yellow")

    def _likely(self) -> str:
        if not self.record.start.is_known:
            return "The reset of the episode is not on record: wrap the env itself, or seed its reset."
        return "The env may use a random source other than its own generator, or the record was changed."

    def _echo_stored(self) -> None:
        echo(f"– not re-simulated: {escaped(self._stored)}", "yellow")
        echo(f"  on record: {self.record.length:,} actions, rewards and ends; observations {self._kinds()}")

    def _echo_step(self, step: dict[str, Any]) -> None:
        ends = [word for word in ("terminated", "truncated") if step[word]]
        echo(f"  step {step['number']:,} of {self.record.length:,}", "bold")
        echo(f"    action       {escaped(short(step['action'], 300))}")
        so_far = number(step["return_so_far"], 8)
        echo(f"    reward       {number(step['reward'], 10)}  (return so far {so_far})")
        echo(f"    ends         {' and '.join(ends) or 'no'}")
        echo(f"    observation  {escaped(short(step['observation'] or 'not kept', 600))}")
        echo(f"    verified     {'yes' if step['verified'] else 'no'}", "" if step["verified"] else "red")

    def _verified(self, number: int) -> bool:
        return self._verdict is not None and number < self._verdict.steps

    def _kinds(self) -> str:
        counts: dict[str, int] = {}
        for kind, count in self.record.kinds.items():
            counts[KINDS[kind]] = counts.get(KINDS[kind], 0) + count
        return ", ".join(f"{count:,} {word}" for word, count in counts.items()) or "not kept"

    def _speed(self) -> float:
        assert self._verdict is not None
        return self._verdict.steps / self._verdict.seconds if self._verdict.seconds else 0.0

    def _outcome(self) -> str:
        if self._verdict is None:
            return "stored"
        return "exact" if self._verdict.exact and self.drawn is None else "diverged"

    def _episode(self) -> dict[str, Any]:
        entry = self.record.response.entry
        ended = entry.episode.steps > 0 or entry.episode.ended_at > 0
        flags = self.record.flags[-1] if self.record.flags else 0
        return {
            "index": entry.index if ended else None,
            "id": self.record.id,
            "attempt": entry.attempt,
            "slot": self.record.slot,
            "env_id": self.record.env.env_id,
            "steps": self.record.length,
            "return": float(getattr(entry.episode, "return")) if ended else float(self.record.rewards.sum()),
            "end": ("not ended", "terminated", "truncated", "terminated and truncated")[flags & 3],
        }


def _divergence(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"step": found.step, "field": found.field, "recorded": found.recorded, "got": found.got}


def _clip(clip: WrittenClip) -> dict[str, Any]:
    return {
        "path": str(clip.path),
        "frames": clip.frames,
        "width": clip.width,
        "height": clip.height,
        "fps": clip.fps,
        "bytes": clip.bytes,
    }
