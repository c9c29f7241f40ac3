"""Calls as a picture of a few lines: who called what, when, and what was shown. Pure."""

from __future__ import annotations

from tests.histories.calls import Call

WIDTH = 40
MAX_LINES = 40


def timeline(calls: list[Call], about: str) -> str:
    """One line for each call in the order of their starts; bars show which overlapped."""
    ordered = sorted(calls, key=lambda call: call.start)[-MAX_LINES:]
    if not ordered:
        return ""
    # Bars are drawn by rank, not by seconds: what matters is which call ended before another began.
    moments = sorted(
        {call.start for call in ordered} | {call.end for call in ordered if call.outcome != "unknown"}
    )
    rank = {moment: number for number, moment in enumerate(moments)}
    scale = max(1, len(moments) - 1) / (WIDTH - 1)
    first = ordered[0].start
    name = max(len(call.session) for call in ordered)
    lines = []
    for call in ordered:
        begin = int(rank[call.start] / scale)
        end = WIDTH - 1 if call.outcome == "unknown" else int(rank[call.end] / scale)
        bar = "├" + "─" * (end - begin - 1) + ("…" if call.outcome == "unknown" else "┤")
        times = f"{call.start - first:8.3f} – {'?':>8}" if call.outcome == "unknown" else (
            f"{call.start - first:8.3f} – {call.end - first:8.3f}"
        )  # fmt: skip
        lines.append(
            f"  {call.session:{name}} {times} s  {' ' * begin}{bar:{WIDTH + 1 - begin}} {text(call, about)}"
        )
    return "\n".join(lines)


def text(call: Call, about: str) -> str:
    """The call and its reply, in words."""
    given = ", ".join(f"{name}={value}" for name, value in call.given.items())
    asked = f"{call.operation}({call.key or given})"
    if call.outcome != "ok":
        return f"{asked} → {call.outcome}"
    shown = call.seen.get(about)
    if shown is None:
        return f"{asked} → {', '.join(call.seen)}{' created' if call.created else ''}"
    labels = "".join(f" {name}={value}" for name, value in shown.labels.items())
    created = " created" if call.created else ""
    return f"{asked} → {shown.phase} attempt {shown.attempt} priority {shown.priority}{labels}{created}"
