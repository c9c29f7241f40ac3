"""Requests from the arguments of a caller, each problem named by its field. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from runspine.domain.run import ACTIVE, ENDED
from runspine.errors import InvalidError, Violation
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import fill, fill_value, plain_value
from runspine.spec.strict_yaml import node_of
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import ListRequest

Moment = datetime | float | int
STATES: dict[str, list[Phase]] = {
    **{Phase.Name(value).lower(): [cast(Phase, value)] for value in Phase.values() if value},
    "active": sorted(ACTIVE),
    "ended": sorted(ENDED),
}
PLAIN_FIELDS = ("env", "algo", "runner", "project", "name", "owner")


def list_request(
    *,
    state: str | Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    page_size: int = 0,
    **texts: str,
) -> ListRequest:
    """The request for runs that match. Raises InvalidError."""
    request = ListRequest(
        submitted_after=_micros("since", since), submitted_before=_micros("until", until), page_size=page_size
    )
    words = [state] if isinstance(state, str) else list(state)
    for word in filter(None, words):
        if str(word).lower() not in STATES:
            raise invalid("state", not_accepted(str(word), STATES))
        request.phases.extend(STATES[str(word).lower()])
    for field in PLAIN_FIELDS:
        setattr(request, "submitted_by" if field == "owner" else field, _text(field, texts.get(field, "")))
    for key, value in (labels or {}).items():
        request.labels[_text("labels", key)] = _text(f"labels.{key}", value)
    for key, value in (params or {}).items():
        found = fill_value(request.params[_text("params", key)], node_of(plain(value)), f"params.{key}")
        if found:
            raise InvalidError("not accepted", found)
    return request


def matches_params(run: Run, request: ListRequest) -> bool:
    """Whether the parameters are those requested: services of earlier releases do not look at them."""
    return all(
        key in run.spec.params and same_value(plain_value(run.spec.params[key]), plain_value(value))
        for key, value in request.params.items()
    )


def same_value(one: Any, other: Any) -> bool:
    """1 equals 1.0, and never True."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def build_spec(given: RunSpec | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> RunSpec:
    """A spec from a message, or from the fields of a run file. Raises InvalidError."""
    spec = RunSpec()
    if isinstance(given, RunSpec):
        spec.CopyFrom(given)
    node = node_of(plain({**(given if isinstance(given, Mapping) else {}), **fields}))
    if found := fill(spec, node):
        raise InvalidError("not accepted", found)
    return spec


def plain(value: Any) -> Any:
    """The value with numbers of NumPy and the like as those of Python."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def invalid(field: str, message: str) -> InvalidError:
    return InvalidError("not accepted", [Violation(field, message)])


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise invalid(field, f"expected text, got {value!r:.60}")
    return value


def _micros(field: str, moment: Moment | None) -> int:
    """Microseconds since 1970 of a datetime (local time without a zone) or of seconds since 1970."""
    if moment is None:
        return 0
    try:
        seconds = moment.astimezone(UTC).timestamp() if isinstance(moment, datetime) else float(moment)
        return int(seconds * 1_000_000)
    except (TypeError, ValueError, OverflowError):
        raise invalid(field, f"expected a datetime or seconds since 1970, got {moment!r:.60}") from None
