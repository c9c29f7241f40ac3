"""OTLP over http, in its JSON form: what every collector takes, without a package of our own."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from runspine import __version__
from runspine.errors import Invalid, Refused, Unreachable
from runspine.traces.spans import Attribute, Event, Span, span_id, trace_id

INTERNAL = 1
OK, ERROR = 1, 2
PATH = "/v1/traces"


def request_of(runs: Mapping[str, Sequence[Span]]) -> dict[str, Any]:
    """An ExportTraceServiceRequest of these runs."""
    spans = [_span(run_id, span) for run_id, found in runs.items() for span in found]
    scope = {"name": "runspine", "version": __version__}
    resource = {"attributes": _attributes({"service.name": "runspine", "service.version": __version__})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def place_of(url: str) -> str:
    """The whole address: a collector's own, with the path that the protocol names behind it."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Invalid(f"{url}: expected http:// or https:// and a host, such as http://127.0.0.1:4318")
    return url if url.endswith(PATH) else url.rstrip("/") + PATH


def headers_of(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """From OTEL_EXPORTER_OTLP_HEADERS, as the specification writes them: name=value,name=value."""
    given = environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    found = (part.partition("=") for part in given.split(",") if "=" in part)
    return {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in found}


def send(url: str, body: Mapping[str, Any], seconds: float = 30.0) -> None:
    """Raises Unreachable, Refused."""
    headers = {"Content-Type": "application/json", **headers_of()}
    asked = urllib.request.Request(place_of(url), json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=seconds) as answer:
            said = json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise Refused(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise Unreachable(f"no collector takes traces at {url}: {error}") from error
    partial = said.get("partialSuccess") or {} if isinstance(said, dict) else {}
    if int(partial.get("rejectedSpans", 0)):
        raise Refused(f"{url} took not all: {partial.get('errorMessage', '')}")


def _span(run_id: str, span: Span) -> dict[str, Any]:
    made = {
        "traceId": trace_id(run_id),
        "spanId": span_id(run_id, span.key),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": str(span.began * 1000),
        "endTimeUnixNano": str(max(span.ended, span.began) * 1000),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
    }
    if span.parent:
        made["parentSpanId"] = span_id(run_id, span.parent)
    if span.flaw is not None:
        made["status"] = {"code": ERROR, "message": span.flaw} if span.flaw else {"code": OK}
    return made


def _event(event: Event) -> dict[str, Any]:
    told = _attributes(event.attributes)
    return {"name": event.name, "timeUnixNano": str(event.at * 1000), "attributes": told}


def _attributes(values: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            # As the protocol's JSON writes 64 bits.
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": value}
