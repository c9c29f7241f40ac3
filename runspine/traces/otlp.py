"""Export of spans with OTLP over HTTP, in its JSON encoding. Needs no package."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from runspine import __version__
from runspine.errors import InvalidError, RefusedError, UnreachableError
from runspine.traces.spans import Attribute, Span, SpanEvent, span_id, trace_id

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
    """The URL of a collector's traces: its own, with the path of the protocol."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidError(f"{url}: expected http:// or https:// and a host, such as http://127.0.0.1:4318")
    return url if url.endswith(PATH) else url.rstrip("/") + PATH


def headers_of(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Headers from OTEL_EXPORTER_OTLP_HEADERS: name=value,name=value."""
    given = environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    found = (part.partition("=") for part in given.split(",") if "=" in part)
    return {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in found}


def send(url: str, body: Mapping[str, Any], seconds: float = 30.0) -> None:
    """Send a request to a collector. Raises UnreachableError and RefusedError."""
    headers = {"Content-Type": "application/json", **headers_of()}
    request = urllib.request.Request(place_of(url), json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            reply = json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise RefusedError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise UnreachableError(f"no collector takes traces at {url}: {error}") from error
    partial = reply.get("partialSuccess") or {} if isinstance(reply, dict) else {}
    if int(partial.get("rejectedSpans", 0)):
        raise RefusedError(f"{url} rejected some spans: {partial.get('errorMessage', '')}")


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
    if span.error is not None:
        made["status"] = {"code": ERROR, "message": span.error} if span.error else {"code": OK}
    return made


def _event(event: SpanEvent) -> dict[str, Any]:
    attributes = _attributes(event.attributes)
    return {"name": event.name, "timeUnixNano": str(event.at * 1000), "attributes": attributes}


def _attributes(values: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            # The JSON encoding writes 64-bit integers as strings.
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": value}
