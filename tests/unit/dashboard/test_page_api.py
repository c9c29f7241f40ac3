"""The client's API over HTTP: answers have their declared shapes, and any request gets an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.api.events import ChangeEvents
from runspine.services.dashboard.edges.api.run_views import SharedViews
from runspine.services.dashboard.edges.api.site import add_client, build_api
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache
from runspine.services.dashboard.edges.login.guard import Guard
from runspine.services.dashboard.edges.login.person import Login
from runspine.services.dashboard.edges.login.sessions import Sessions
from runspine.services.dashboard.edges.run_follower import RunFollower
from runspine.services.dashboard.edges.shared_query import SharedQuery
from runspine.services.dashboard.settings import DashboardSettings
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import RunSummary

RUNS = 250


@pytest.fixture
def table() -> RunTable:
    found = RunTable()
    for number in range(RUNS):
        phase = FAILED if number % 5 == 0 else COMPLETED
        run = Run(id=f"{number:026}", name=f"run-{number}", spec=RunSpec(env="E", algo="ppo"), phase=phase)
        run.submitted_at = number + 1
        found.apply_summary(RunSummary(run=run, progress=Progress(mean_return=number)))
    return found


@pytest.fixture
async def app(table: RunTable, tmp_path: Path) -> AsyncIterator[Any]:
    """The API with a table of runs; nothing answers at the services' addresses."""
    loaded = DashboardSettings(
        dashboard_dir=tmp_path, address="127.0.0.1:1", telemetry_address="127.0.0.1:1",
        artifacts_address="127.0.0.1:1",
    )  # fmt: skip
    async with Backend(loaded) as backend:
        shared = SharedQuery()
        follower = RunFollower(backend.access(""), table)
        api = build_api(
            backend, follower, SharedViews(table), CurveCache(table), shared, Comparisons(table, shared)
        )
        sessions = Sessions(Login(None), tmp_path / "sessions", 100.0, 100.0)
        yield Guard(api, sessions, secure=False, behind_proxy=False)


@pytest.fixture
async def client(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as found:
        yield found


async def test_pages_of_a_view_follow_each_other_without_gap(client: httpx.AsyncClient) -> None:
    ids: list[str] = []
    for first in range(0, 300, 60):
        query: dict[str, str | int] = {"q": "state:completed", "sort": "-return", "first": first, "count": 60}
        page = (await client.get("/runs", params=query)).json()
        assert page["total"] == RUNS * 4 // 5
        ids += page["ids"]
    assert ids == sorted((f"{n:026}" for n in range(RUNS) if n % 5), reverse=True)


async def test_only_rows_that_changed_are_sent_again(client: httpx.AsyncClient, table: RunTable) -> None:
    first = (await client.get("/runs", params={"columns": "name,return", "count": 20})).json()
    assert len(first["rows"]) == 20
    again = {"columns": "name,return", "count": 20, "since": first["version"]}
    assert (await client.get("/runs", params=again)).json()["rows"] == []
    table.apply_summary(RunSummary(run=table.get(f"{249:026}").run, progress=Progress(mean_return=-1.0)))  # type: ignore[union-attr]
    changed = (await client.get("/runs", params=again)).json()
    assert [(row["id"], row["cells"]) for row in changed["rows"]] == [(f"{249:026}", ["run-249", -1.0])]
    assert changed["ids"] == first["ids"]


PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "q": st.text(max_size=40) | st.sampled_from(["lr<1", "state:failed", "return>1e3 -x", 'name:"a b"']),
        "sort": st.text(max_size=12) | st.sampled_from(["return", "-name", "params.x", "-"]),
        "first": st.integers(-(2**70), 2**70),
        "count": st.integers(-5, 300) | st.text(max_size=3),
        "columns": st.text(max_size=20) | st.just("name,params.lr,labels.a"),
        "since": st.integers(-1, 2**64),
        "by": st.text(max_size=10) | st.sampled_from(["env", "state"]),
        "axis": st.text(max_size=6),
        "run": st.lists(st.text(max_size=30), max_size=3),
        "metric": st.text(max_size=10),
    },
)
PATHS = st.sampled_from(
    ["/runs", "/runs/groups", "/runs/ids", "/runs/columns", "/runs/sparks", "/session", "/compare",
     "/compare/specs", "/runs/x", "/runs/x/head", "/runs/x/series", "/runs/x/curves", "/runs/x/log",
     "/runs/x/log/search", "/runs/x/episodes", "/runs/x/files", "/nothing"]
)  # fmt: skip


@given(path=PATHS, params=PARAMETERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_request_is_answered_as_declared(
    client: httpx.AsyncClient, path: str, params: dict[str, Any]
) -> None:
    answer = await client.get(path, params=params)
    body = answer.json()
    assert answer.status_code in (200, 400, 404, 503)
    operation = DECLARED["paths"].get(path.replace("/x", "/{run_id}"), {}).get("get")
    if answer.status_code == 200:
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(body, {**schema, "components": DECLARED["components"]})
    else:
        assert isinstance(body["error"], str)
        assert body["error"]


DECLARED = json.loads((Path(__file__).parents[3] / "docs/reference/openapi.json").read_text())


async def test_the_client_and_its_api_allow_no_inline_code(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/api/v1/session")).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


async def test_the_first_event_states_the_present_and_the_next_a_change(table: RunTable) -> None:
    class Runs:
        def __init__(self) -> None:
            self.table, self.trouble = table, ""
            self.artifacts = type("Artifacts", (), {"position": 0, "of": lambda *_: 3})()

    events = ChangeEvents(Runs(), "e1").stream([f"{1:026}", "unknown"])  # type: ignore[arg-type]
    assert (await anext(events)).startswith(b"retry:")
    first = (await anext(events)).decode()
    assert f"id: e1.{RUNS}" in first
    body = json.loads(first.partition("data: ")[2])
    assert body["version"] == RUNS
    assert body["runs"] == {f"{1:026}": [2, 3]}
    table.apply_summary(RunSummary(run=Run(id="new", position=5)))
    second = json.loads((await anext(events)).decode().partition("data: ")[2])
    assert second["version"] == RUNS + 1
    await events.aclose()  # type: ignore[attr-defined]


async def test_assets_are_named_by_their_digest_and_kept_for_ever() -> None:
    app = FastAPI()
    add_client(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        page = (await client.get("/app/run/abc")).text
        assert "<script>" not in page
        assert "style=" not in page
        address = page.partition('src="')[2].partition('"')[0]
        asset = await client.get(address)
        assert "immutable" in asset.headers["cache-control"]
        assert asset.headers["content-encoding"] == "gzip"
        assert (await client.get("/app/assets/older/app.js")).status_code == 404
