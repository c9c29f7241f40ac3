from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runspine.cli.commands.runs.trace import drawn
from runspine.errors import InvalidError, RefusedError, UnreachableError
from runspine.traces.otlp import headers_of, place_of, request_of, send
from runspine.traces.spans import spans_of
from runspine.wire.v1 import facts_pb2 as facts
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.servers.nats import free_port

RUN = "01JRUN"
SECOND = 1_000_000


def history() -> list[Fact]:
    """One attempt lost with its worker, the next one good, a file verified after the end."""
    made = facts.ArtifactProduced(attempt=2, kind="checkpoint", name="a.pt", digest="d", size=7)
    spec = RunSpec(env="CartPole-v1", algo="ppo", runner="builtin", seed=3)
    given: list[tuple[int, dict[str, Any]]] = [
        (0, {"run_submitted": facts.RunSubmitted(run_id=RUN, name="cart", spec=spec)}),
        (0, {"run_queued": facts.RunQueued(attempt=1)}),
        (2, {"attempt_started": facts.AttemptStarted(attempt=1, worker_id="w1", host="h")}),
        (9, {"run_went_stale": facts.RunWentStale(attempt=1)}),
        (12, {"run_requeued": facts.RunRequeued(attempt=2, reason="lost with its worker", lost=True)}),
        (13, {"attempt_started": facts.AttemptStarted(attempt=2, worker_id="w2", host="h")}),
        (20, {"artifact_produced": made}),
        (21, {"attempt_exited": facts.AttemptExited(attempt=2, outcome=facts.EXITED)}),
        (22, {"run_completed": facts.RunCompleted(attempt=2)}),
        (25, {"artifact_indexed": facts.ArtifactIndexed(artifact=made, produced_at=20 * SECOND)}),
    ]
    return [Fact(at=at * SECOND, **fact) for at, fact in given]


def test_a_run_is_a_trace_of_its_waits_attempts_and_files() -> None:
    spans = spans_of(RUN, reversed(history()))
    found = [(s.name, s.parent, s.began // SECOND, s.ended // SECOND, s.error) for s in spans]
    assert found == [
        ("run cart", "", 0, 22, ""),
        ("queued", "run", 0, 2, ""),
        ("queued", "run", 12, 13, ""),
        ("attempt 1", "run", 2, 12, "lost with its worker"),
        ("attempt 2", "run", 13, 21, ""),
        ("verify a.pt", "attempt/2", 20, 25, ""),
    ]
    assert [event.name for event in spans[3].events] == ["run went stale"]
    assert spans[4].events[0].attributes == {"kind": "checkpoint", "name": "a.pt"}
    assert spans[0].attributes["runspine.seed"] == 3


def test_a_timeline_is_drawn_in_order_of_time() -> None:
    lines = list(drawn(spans_of(RUN, history())))
    assert [line.split("  ")[-1] for line in lines][-2:] == ["attempt 2", "verify a.pt"]
    assert "lost with its worker" in next(line for line in lines if "attempt 1" in line)
    assert lines[-1].startswith("    20.000 s")


def test_the_request_has_the_form_of_the_protocol() -> None:
    """The published messages of OpenTelemetry take it; ids are hex there, base64 in protobuf's own JSON."""
    body = request_of({RUN: spans_of(RUN, history())})
    assert body == request_of({RUN: spans_of(RUN, history())})
    for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    read = ParseDict(body, ExportTraceServiceRequest())
    spans = read.resource_spans[0].scope_spans[0].spans
    assert {len(span.trace_id) for span in spans} == {16}
    assert len({span.span_id for span in spans}) == len(spans)
    known = {span.span_id for span in spans}
    assert all(len(span.span_id) == 8 and (span.parent_span_id or span.span_id) in known for span in spans)
    assert [span.status.code for span in spans] == [1, 1, 1, 2, 1, 1]
    assert spans[0].end_time_unix_nano - spans[0].start_time_unix_nano == 22_000_000_000


class Collector:
    def __init__(self) -> None:
        self.taken: list[tuple[str, str, Any]] = []
        self.answer: tuple[int, bytes] = (200, b"{}")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.taken.append((self.path, self.headers["x-key"] or "", body))
                self.send_response(outer.answer[0])
                self.end_headers()
                self.wfile.write(outer.answer[1])

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_collector_gets_it_or_the_error_has_the_reason(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
    body = request_of({RUN: spans_of(RUN, history())})
    send(collector.url, body)
    assert collector.taken == [("/v1/traces", "a b", body)]
    collector.answer = (200, b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}')
    with pytest.raises(RefusedError, match="rejected some spans: too old"):
        send(collector.url, body)
    collector.answer = (401, b"")
    with pytest.raises(RefusedError, match="answered 401"):
        send(collector.url, body)
    with pytest.raises(UnreachableError, match="no collector takes traces at"):
        send(f"http://127.0.0.1:{free_port()}", body)


def test_a_collector_is_named_as_the_specification_does() -> None:
    assert place_of("http://c:4318") == place_of("http://c:4318/") == "http://c:4318/v1/traces"
    assert place_of("https://c/otlp") == place_of("https://c/otlp/v1/traces") == "https://c/otlp/v1/traces"
    with pytest.raises(InvalidError, match="expected http"):
        place_of("c:4318")
    assert headers_of({"OTEL_EXPORTER_OTLP_HEADERS": "a=1, b = 2"}) == {"a": "1", "b": "2"}
