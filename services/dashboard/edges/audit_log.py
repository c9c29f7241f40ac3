"""The dashboard's part of the audit trail, where it has NATS."""

from __future__ import annotations

import asyncio

from runspine.audit.trail import AuditTrail
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from runspine.services.dashboard.settings import DashboardSettings


async def write_audit(trail: AuditTrail, settings: DashboardSettings) -> None:
    """Write the trail until cancelled. Without NATS nothing is written."""
    if settings.nats_url:
        account = NatsAccount(
            url=settings.nats_url,
            user=settings.nats_user,
            password=settings.nats_password.get_secret_value(),
            inbox=f"_INBOX_{settings.nats_user or 'dashboard'}",
        )
        async with NatsConnection(account, "dashboard-audit") as link, Publisher(link) as publisher:
            await trail.run(JetStreamLog(link, publisher))
    await asyncio.Event().wait()
