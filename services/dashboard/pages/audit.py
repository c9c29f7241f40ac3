"""The audit page, for admins: who called what, from where, and whether it was refused."""

from __future__ import annotations

from fastapi import Request
from nicegui import ui

from runspine.errors import RunspineError
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import empty, problem, wait_for_browser
from runspine.services.dashboard.pages.elements.section import Section
from runspine.services.dashboard.pages.elements.tables import plain_table
from runspine.spec.plain import enum_word
from runspine.text.values import local_time
from runspine.wire.v1.facts_pb2 import CallOutcome
from runspine.wire.v1.trainer_pb2 import AuditEntry, SearchAuditRequest, SearchAuditResponse

SHOWN_ENTRIES = 200
REFRESH_SECONDS = 5.0


def add_audit_page(context: PageContext) -> None:
    @page("/audit")
    async def audit(request: Request) -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "Audit", "/audit"):
            await wait_for_browser("Loading the audit trail…")
            await AuditPage(context, visitor).draw()


class AuditPage:
    def __init__(self, context: PageContext, visitor: Visitor) -> None:
        self._context, self._visitor = context, visitor
        self._request = SearchAuditRequest(limit=SHOWN_ENTRIES)

    async def draw(self) -> None:
        if self._visitor.person.scope != "admin":
            problem("The audit trail needs the scope admin", "Log in with another token.", "All runs", "/")
            return
        with ui.row().classes("items-center"):
            caller = ui.input("Token").props("dense clearable")
            text = ui.input("Target, address, reason").props("dense clearable")
            refused = ui.checkbox("Refused only")
        self._entries = Section()

        async def search() -> None:
            self._request.caller = str(caller.value or "").strip()
            self._request.text = str(text.value or "").strip()
            self._request.refused = bool(refused.value)
            await self._refresh()

        for field in (caller, text, refused):
            field.on_value_change(search)
        await self._refresh()
        self._context.refresher.every(REFRESH_SECONDS, self._refresh, at_once=False)

    async def _refresh(self) -> None:
        try:
            answer: SearchAuditResponse = await self._visitor.access.call(
                "trainer", "SearchAudit", self._request
            )
        except RunspineError as error:
            message = str(error)
            self._entries.show(message, lambda: problem("The audit trail cannot be read", message))
            return
        rows = [audit_row(entry) for entry in answer.entries]
        self._entries.show(rows, lambda: plain_table(rows) if rows else empty("No such calls"))


def audit_row(entry: AuditEntry) -> dict[str, str]:
    call = entry.call
    return {
        "when": local_time(entry.at),
        "who": call.caller or "–",
        "call": f"{call.service} {call.method}".strip(),
        "target": call.target,
        "from": call.peer + (f" for {call.forwarded}" if call.forwarded else ""),
        "outcome": enum_word(CallOutcome.DESCRIPTOR, call.outcome).replace("_", " "),
        "count": str(call.count or 1),
        "reason": call.reason,
    }
