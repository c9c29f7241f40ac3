"""The audit trail of real services: who, what, from where, refused or not; strangers cannot fill the disk."""

from __future__ import annotations

from typing import Any

import aiohttp
import grpc
import pytest

from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.callers import GuardedServices, bearer, code_of
from tests.kit.waiting import eventually, until

pytestmark = pytest.mark.slow
SPEC = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none")


def found(guarded: GuardedServices, *words: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = guarded.shell.json("audit", *words)
    return listed


def test_changes_and_refusals_are_recorded_with_who_what_and_where(guarded: GuardedServices) -> None:
    for name, scope in (("gina", "run"), ("hugo", "read")):
        guarded.tokens.add(name, f"{name}-token", scope)
    until(lambda: guarded.allowed("hugo-token"), 30)
    submitted = guarded.trainer.Submit(
        trainer.SubmitRequest(spec=SPEC), metadata=(*bearer("gina-token"), ("x-request-id", "ticket-7"))
    )
    for method, request in (
        (guarded.trainer.Submit, trainer.SubmitRequest(spec=SPEC)),
        (guarded.trainer.SearchAudit, trainer.SearchAuditRequest()),
    ):
        assert code_of(method, request, bearer("hugo-token")) == grpc.StatusCode.PERMISSION_DENIED
    wrong = trainer.CancelRequest(run_id="none")
    assert code_of(guarded.trainer.Cancel, wrong, bearer("gina-token")) == grpc.StatusCode.NOT_FOUND
    for _ in range(300):
        assert code_of(guarded.trainer.List, trainer.ListRequest(), ()) == grpc.StatusCode.UNAUTHENTICATED

    until(lambda: len(found(guarded, "--by", "gina")) == 2, 30)
    not_done, done = found(guarded, "--by", "gina")
    assert (done["method"], done["target"], done["outcome"]) == ("Submit", submitted.run.id, "done")
    assert (done["peer"], done["request_id"], done["scope"]) == ("127.0.0.1", "ticket-7", "run")
    assert (not_done["outcome"], not_done["code"], not_done["target"]) == ("not_done", "NOT_FOUND", "none")
    refused = {one["method"]: one for one in found(guarded, "--by", "hugo", "--refused")}
    assert set(refused) == {"Submit", "SearchAudit"}
    assert "needs the scope 'admin'" in refused["SearchAudit"]["reason"]
    strangers = [one for one in found(guarded, "--refused", "--method", "List") if not one.get("caller")]
    assert 1 <= len(strangers) <= 4, "300 refusals are few records"
    assert guarded.shell.json("audit", "--verify")["whole"]


async def test_logins_and_failed_logins_are_recorded(guarded: GuardedServices) -> None:
    guarded.tokens.add("ida", "idas-token", "run")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:

        async def login(token: str) -> bool:
            form = {"token": token}
            async with http.post(f"{guarded.page}/login", data=form, allow_redirects=False) as answer:
                return answer.status in (303, 403)

        await eventually(lambda: login("a guess"), 60)
        await eventually(lambda: login("idas-token"), 60)
        async with http.post(f"{guarded.page}/logout", allow_redirects=False):
            pass
    until(lambda: [one["method"] for one in found(guarded, "--by", "ida")] == ["logout", "login"], 30)
    failed = found(guarded, "--refused", "--method", "login")
    assert {(one["service"], one["peer"]) for one in failed} == {("dashboard", "127.0.0.1")}
    assert "403" in {one["code"] for one in failed}
    assert not guarded.shell.json("audit", "--text", "a guess"), "what was typed is not stored"
