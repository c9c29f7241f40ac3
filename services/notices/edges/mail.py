"""Sends mail. A notice that is sent again has the same Message-ID."""

from __future__ import annotations

import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from runspine.services.notices.core.message import ID_HEADER
from runspine.services.notices.edges.http_post import NotAcceptedError
from runspine.services.notices.notices_file import MailChannel
from runspine.wire.v1.facts_pb2 import NoticeDue


def send_mail(channel: MailChannel, password: str, due: NoticeDue, timeout: float) -> None:
    """Blocks until the server has taken the mail. Raises NotAcceptedError."""
    message = _message(channel, due)
    try:
        with _connected(channel, timeout) as server:
            if channel.user:
                server.login(channel.user, password)
            refused = server.send_message(message)
    except smtplib.SMTPResponseException as error:
        raise NotAcceptedError(f"the mail server answered with {error.smtp_code}") from None
    except smtplib.SMTPRecipientsRefused:
        raise NotAcceptedError("the mail server refused every recipient") from None
    except (OSError, smtplib.SMTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NotAcceptedError(f"no answer of the mail server: {reason}") from None
    if refused:
        raise NotAcceptedError(f"the mail server refused {len(refused)} of {len(channel.to)} recipients")


def _connected(channel: MailChannel, timeout: float) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if channel.tls == "tls":
        return smtplib.SMTP_SSL(channel.host, channel.port, timeout=timeout, context=context)
    server = smtplib.SMTP(channel.host, channel.port, timeout=timeout)
    try:
        if channel.tls == "starttls":
            server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _message(channel: MailChannel, due: NoticeDue) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = due.title
    message["From"] = channel.sender
    message["To"] = ", ".join(channel.to)
    message["Date"] = format_datetime(datetime.fromtimestamp(due.caused_at / 1e6, UTC))
    message["Message-ID"] = f"<{due.id}@runspine>"
    message[ID_HEADER] = due.id
    message.set_content(f"{due.title}\n\n{due.text}\n")
    return message
