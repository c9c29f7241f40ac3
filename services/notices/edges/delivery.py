"""Brings one notice to its target: a channel, or an action of the orchestrator."""

from __future__ import annotations

import asyncio
import time

from runspine.errors import RefusedError, RunNotFoundError, RunspineError
from runspine.notice.rules import LABEL, STOP
from runspine.rpc.async_client import TRAINER, AsyncClient
from runspine.services.notices.core import message
from runspine.services.notices.edges.http_post import NotAcceptedError, post
from runspine.services.notices.edges.mail import send_mail
from runspine.services.notices.notices_file import Channel, MailChannel, NoticesConfig, WebhookChannel
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import NoticeDue

ACTION_KINDS = {STOP: "stop", LABEL: "label"}


class NoticeDelivery:
    """Channels of the operator's file, and actions with the service's token."""

    def __init__(self, config: NoticesConfig, client: AsyncClient, timeout: float) -> None:
        self._config = config
        self._client = client
        self._timeout = timeout

    def kind(self, target: str) -> str:
        """The kind of a target, for metrics."""
        channel = self._config.channels.get(target)
        return channel.kind if channel is not None else ACTION_KINDS.get(target, "unknown")

    async def deliver(self, due: NoticeDue) -> None:
        """Return when the receiver has accepted it. Raises NotAcceptedError."""
        if due.target in ACTION_KINDS:
            await self._act(due)
            return
        channel = self._config.channels.get(due.target)
        if channel is None:
            raise NotAcceptedError(f"the file of channels has no {due.target!r}")
        # A receiver that sends its answer byte by byte does not hold the notice for longer.
        work = asyncio.to_thread(self._send, channel, due)
        try:
            await asyncio.wait_for(work, 3 * self._timeout)
        except TimeoutError:
            raise NotAcceptedError(f"no answer within {3 * self._timeout:g} s") from None

    def _send(self, channel: Channel, due: NoticeDue) -> None:
        if isinstance(channel, MailChannel):
            password = self._config.secrets.get((due.target, "password"), "")
            send_mail(channel, password, due, self._timeout)
            return
        headers = {message.ID_HEADER: due.id}
        if isinstance(channel, WebhookChannel):
            body, now = message.webhook_body(due), int(time.time())
            secret = self._config.secrets[due.target, "secret"]
            headers[message.TIME_HEADER] = str(now)
            headers[message.SIGNATURE_HEADER] = message.signature(secret, now, body)
        else:
            body = message.chat_body(channel.kind, due)
        post(self._url(channel, due.target), body, headers, self._timeout)

    def _url(self, channel: Channel, name: str) -> str:
        given = getattr(channel, "url", "")
        return given if isinstance(given, str) else self._config.secrets[name, "url"]

    async def _act(self, due: NoticeDue) -> None:
        """Carry an action out. Both can be repeated: twice is once."""
        try:
            async with asyncio.timeout(3 * self._timeout):
                if due.target == STOP:
                    request = wire.CancelRequest(
                        run_id=due.run_id, reason=f"rule {due.rule}: {due.title}"[:200]
                    )
                    await self._client.call(TRAINER, "Cancel", request, wire.CancelResponse)
                else:
                    labels = wire.SetLabelsRequest(run_id=due.run_id, labels=due.labels)
                    await self._client.call(TRAINER, "SetLabels", labels, wire.SetLabelsResponse)
        except (RefusedError, RunNotFoundError) as error:
            if due.target != STOP:
                raise NotAcceptedError(str(error)) from None
            # The run has ended: there is nothing left to stop.
        except (RunspineError, TimeoutError) as error:
            raise NotAcceptedError(str(error) or "no answer of the orchestrator") from None
