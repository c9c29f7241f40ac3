"""Format values for people: escaped text, ages, numbers, short ids. Standard library only."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from datetime import datetime

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Characters that could move the cursor, change the terminal or reorder text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
MICROSECOND = 1_000_000


def escaped(text: str) -> str:
    """Escape control characters, so that a line cannot act on the terminal."""
    return _UNSAFE.sub(_shown, text)


def escaped_block(text: str) -> str:
    """Escape text of several lines."""
    return "\n".join(escaped(line) for line in text.split("\n"))


def without_colour(text: str) -> str:
    """Remove ANSI colours; escape other control characters."""
    return escaped(_COLOUR.sub("", text))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    named = {9: r"\t", 10: r"\n", 13: r"\r"}.get(code)
    return named or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def middle_cut(text: str, width: int) -> str:
    """Shorten text in the middle, where names differ least."""
    if len(text) <= width:
        return text
    front = (width - 1) // 2
    return f"{text[:front]}…{text[len(text) - (width - 1 - front) :]}"


def extremes(lows: Iterable[float], highs: Iterable[float]) -> tuple[float, float]:
    """The lowest and the highest value, without those that are not a number; NaN when there is none."""
    low = min((value for value in lows if not math.isnan(value)), default=math.nan)
    return low, max((value for value in highs if not math.isnan(value)), default=math.nan)


def short_ids(ids: Iterable[str], least: int = 12) -> dict[str, str]:
    """Shortest prefixes that are unique among these ids; commands accept them."""
    whole = sorted(set(ids))
    short: dict[str, str] = {}
    for index, this in enumerate(whole):
        others = whole[max(0, index - 1) : index] + whole[index + 1 : index + 2]
        shared = max((_shared(this, other) for other in others), default=0)
        short[this] = this[: max(least, shared + 1)]
    return short


def _shared(one: str, other: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def span(seconds: float) -> str:
    """Format a duration in at most two units: 850 ms, 12 s, 3 m 20 s, 2 h 5 m, 4 d 1 h."""
    if seconds < 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, size, smaller, part in (("m", 60, "s", 1), ("h", 3600, "m", 60), ("d", 86_400, "h", 3600)):
        if whole < size * (60 if unit != "h" else 24) or unit == "d":
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError("unreachable")


def age(at: int, now: float | None = None) -> str:
    """Age in one unit, for tables."""
    if not at:
        return "–"
    words = span(max(0.0, (time.time() if now is None else now) - at / MICROSECOND)).split()
    return "now" if words[1] == "ms" else "".join(words[:2])


def local_time(at: int) -> str:
    if not at:
        return "–"
    moment = _calendar(at)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else f"{at} µs"


def clock(at: int) -> str:
    """Time of day with milliseconds."""
    moment = _calendar(at)
    return f"{moment:%H:%M:%S}.{at % MICROSECOND // 1000:03d}" if moment else f"{at} µs"


def _calendar(at: int) -> datetime | None:
    """Local date and time; None outside the range of the calendar, as a clock may be wrong."""
    try:
        return datetime.fromtimestamp(at // MICROSECOND)
    except (ValueError, OverflowError, OSError):
        return None


def when(at: int) -> str:
    """Local time and age: 2026-03-01 10:20:30 (5m ago)."""
    if not at:
        return "–"
    ago = age(at)
    return f"{local_time(at)} ({ago if ago == 'now' else ago + ' ago'})"


def number(value: float, digits: int = 4) -> str:
    """1,234,567 for counts, 0.000312 or 23.51 for measurements."""
    if isinstance(value, int) or (value == value and abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.{digits}g}"


def size(count: int) -> str:
    """640 B, 12.3 KB, 4.5 MB."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def moment(text: str, now: float) -> int:
    """`2h` ago, or a local date and time, as microseconds. Raises ValueError."""
    parts = _SPAN.findall(text.replace(" ", ""))
    if parts and "".join(amount + unit for amount, unit in parts) == text.replace(" ", ""):
        return int((now - sum(float(amount) * _UNITS[unit] for amount, unit in parts)) * MICROSECOND)
    return int(datetime.fromisoformat(text).timestamp() * MICROSECOND)
