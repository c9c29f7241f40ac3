"""Accounts of NATS: which user is in which, and what passes between them. Pure.

The streams are in an account of their own, with no service in it; each service is in another one. JetStream
publishes an answer on any subject that the requester names, whatever it may publish itself, but only in the
account of the requester. So a service cannot have the server write what it may not write.

All follows from `USERS`. What a user publishes is imported from the account of the streams if it is stored
there or is a request to JetStream; other messages pass to the accounts of their subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runspine.eventlog.permissions import USERS, NatsRights
from runspine.eventlog.subjects import is_stored

# The name that the account of the streams has always had: the server keeps them in a directory of that name.
HUB = "RUNSPINE"
OPERATOR = "admin"
# The server gives every account an import of the whole API of JetStream, which answers that the account has
# none. An import of this, which nobody serves, takes its place.
NOBODY = "NOBODY"
UNSERVED = "unserved.>"
JETSTREAM = "$JS.API.>"
# Their answers are more than one message.
MANY_ANSWERS = "$JS.API.DIRECT.GET."

Rights = Mapping[str, NatsRights]


def zone_of(user: str) -> str:
    """The account of a user. The janitor is a process of the artifacts service."""
    if user == OPERATOR:
        return HUB
    return "ARTIFACTS" if user == "janitor" else user.upper()


def accounts(password: Callable[[str], Any], users: Rights = USERS) -> dict[str, Any]:
    """The section `accounts` of the server's configuration."""
    zones = list(dict.fromkeys(zone_of(user) for user in users))
    found: dict[str, Any] = {
        HUB: {"jetstream": "enabled"},
        NOBODY: {"exports": [{"service": UNSERVED}]},
        **{zone: {} for zone in zones if zone != HUB},
    }
    for zone in zones:
        found[zone]["users"] = [
            _user(user, password(user), users[user]) for user in users if zone_of(user) == zone
        ]
    _add_services(found, users)
    _add_streams(found, users)
    return found


def _user(name: str, password: Any, rights: NatsRights) -> dict[str, Any]:
    permissions = {"publish": {"allow": list(rights.publish)}, "subscribe": {"allow": list(rights.subscribe)}}
    return {"user": name, "password": password, "permissions": permissions}


def _add_services(found: dict[str, Any], users: Rights) -> None:
    """What services write, and what they ask of JetStream, goes to the account of the streams."""
    wanted: dict[str, list[str]] = {}
    for user, rights in users.items():
        for subject in rights.publish:
            if zone_of(user) != HUB and _is_served(subject):
                places = wanted.setdefault(subject, [])
                if zone_of(user) not in places:
                    places.append(zone_of(user))
    for subject, zones in wanted.items():
        export: dict[str, Any] = {"service": subject, "accounts": zones}
        if subject.startswith(MANY_ANSWERS):
            export["response_type"] = "stream"
        found[HUB].setdefault("exports", []).append(export)
        for zone in zones:
            _import(found[zone], {"service": {"account": HUB, "subject": subject}})
    for zone in {zone for zones in wanted.values() for zone in zones}:
        _import(found[zone], {"service": {"account": NOBODY, "subject": UNSERVED}, "to": JETSTREAM})


def _add_streams(found: dict[str, Any], users: Rights) -> None:
    """What is not stored goes from the account of its writer to those of its readers."""
    passed: dict[tuple[str, str], list[str]] = {}
    for reader, rights in users.items():
        for pattern in rights.subscribe:
            for source, subject in _sources(pattern, users):
                places = passed.setdefault((source, subject), [])
                if zone_of(reader) not in (*places, source, HUB):
                    places.append(zone_of(reader))
    for (source, subject), zones in passed.items():
        if not zones:
            continue
        found[source].setdefault("exports", []).append({"stream": subject, "accounts": zones})
        for zone in zones:
            _import(found[zone], {"stream": {"account": source, "subject": subject}})


def _sources(pattern: str, users: Rights) -> list[tuple[str, str]]:
    """Accounts and subjects from which messages on this pattern come."""
    if pattern.startswith("stored."):
        return [(HUB, pattern)]
    return [
        (zone_of(user), subject)
        for user, rights in users.items()
        for subject in rights.publish
        if zone_of(user) != HUB and not _is_served(subject) and covers(pattern, subject)
    ]


def _import(account: dict[str, Any], what: dict[str, Any]) -> None:
    account.setdefault("imports", []).append(what)


def _is_served(subject: str) -> bool:
    return subject.startswith("$JS.") or is_stored(subject)


def covers(pattern: str, subject: str) -> bool:
    """Whether every subject of the second pattern is one of the first."""
    wide, narrow = pattern.split("."), subject.split(".")
    for place, token in enumerate(wide):
        if token == ">":
            return len(narrow) > place
        if place >= len(narrow) or narrow[place] == ">" or token not in ("*", narrow[place]):
            return False
    return len(wide) == len(narrow)
