"""Addresses and output of experiment trackers: what is taken over from a trainer, and what is not. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from runspine.wire.v1.facts_pb2 import OFFLINE, SYNCED, SYNCING, Tracking, TrackingState

WANDB = "wandb"
# Label of a run that holds the address of its W&B run, set by `runspine export --to wandb` or by hand.
LABEL = "wandb"
# Its value after an offline export, which has no address before it is synced.
OFFLINE_LABEL = "offline"
MAX_URL_LENGTH = 1024
MAX_NAME_LENGTH = 256
_SAFE = re.compile(r"[!-~]+\Z")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VIEW = re.compile(r"View run (?:(?P<name>\S.{0,255}?) )?at:? {1,4}(?P<url>https?://[!-~]{1,1024})")
_NAME = re.compile(r"(?:Syncing|Resuming) run (?P<name>\S.{0,255})\Z")
_FOLDER = re.compile(r"(?P<offline>offline-)?run-\d{8}_\d{6}-(?P<run>[\w-]{1,128})\Z")
_SYNCED = re.compile(r"Synced \d+ W&B file")
_OFFLINE = ("syncing is set to `offline`", "sync this run to the cloud", "URL not available in offline run")


def clean_url(text: object) -> str:
    """An http or https address without credentials, query and fragment; empty when it is none.

    An address of an anonymous W&B run has its key in the query.
    """
    if type(text) is not str or len(text) > MAX_URL_LENGTH or not _SAFE.match(text):
        return ""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or any(sign in text for sign in "\"'<>\\^`{|}"):
        return ""
    bracketed = f"[{host}]" if ":" in host else host
    where = f"{bracketed}:{port}" if port else bracketed
    return f"{parts.scheme}://{where}{parts.path}"


def label_after_export(known: str, url: str) -> str:
    """Value of the label after an export; without an address, one that is known stays."""
    return clean_url(url) or known or OFFLINE_LABEL


def label_text(label: str) -> str:
    """What the label states, for people; empty when it is neither an address nor `offline`."""
    if label == OFFLINE_LABEL:
        return "W&B: exported offline, not sent; `wandb sync` sends it"
    return f"W&B: {url}" if (url := clean_url(label)) else ""


def wandb_run(url: str) -> Tracking:
    """What the address of a W&B run states: entity, project and id; empty when the address is none."""
    cleaned = clean_url(url)
    found = Tracking(service=WANDB, url=cleaned)
    words = [unquote(word) for word in urlsplit(cleaned).path.split("/") if word]
    if len(words) >= 4 and words[-2] == "runs":
        found.entity, found.project, found.run = map(_plain, (words[-4], words[-3], words[-1]))
    return found


def read_output(text: str) -> Tracking | None:
    """What a line of a trainer's output states about its W&B run; None for every other line."""
    text = _COLOUR.sub("", text)
    if found := _VIEW.search(text):
        tracking = wandb_run(found["url"])
        tracking.name = _plain(found["name"] or "")
        tracking.state = SYNCING
        return tracking if tracking.url else None
    if not text.startswith("wandb:"):
        return None
    if _SYNCED.search(text):
        return Tracking(service=WANDB, state=SYNCED)
    if any(words in text for words in _OFFLINE):
        return Tracking(service=WANDB, state=OFFLINE)
    if found := _NAME.search(text):
        return Tracking(service=WANDB, name=_plain(found["name"]), state=SYNCING)
    return None


def read_folder(name: str) -> Tracking | None:
    """What the name of a folder below `wandb/` states; None when it is not one of a run."""
    found = _FOLDER.match(name)
    if found is None:
        return None
    state: TrackingState = OFFLINE if found["offline"] else SYNCING
    return Tracking(service=WANDB, run=found["run"], state=state)


def read_fields(fields: Mapping[str, Any]) -> Tracking:
    """The object in `wandb/latest-run.json`, or under `wandb` in a `config` line."""
    url = next((fields[key] for key in ("url", "run_url", "wandb_url") if fields.get(key)), "")
    tracking = wandb_run(url)
    for field, keys in _FIELDS.items():
        if text := next((_plain(str(fields[key])) for key in keys if fields.get(key)), ""):
            setattr(tracking, field, text)
    if state := _STATES.get(str(fields.get("mode", ""))):
        tracking.state = state
    elif tracking.url:
        tracking.state = SYNCING
    return tracking


def merged(known: Tracking, new: Tracking) -> Tracking:
    """What is known with what is new. Another run of the trainer replaces the one before."""
    result = Tracking()
    if not (known.run and new.run and known.run != new.run):
        result.CopyFrom(known)
        if new.state == SYNCING and known.state == SYNCED:
            # The address is printed again at the end.
            result.MergeFrom(new)
            result.state = SYNCED
            return result
    result.MergeFrom(new)
    return result


def _plain(text: str) -> str:
    """A short text of one line."""
    return _UNPRINTABLE.sub(" ", text).strip()[:MAX_NAME_LENGTH]


_FIELDS = {
    "entity": ("entity",),
    "project": ("project",),
    "name": ("name", "display_name", "run_name"),
    "run": ("id", "run_id"),
}
_STATES: dict[str, TrackingState] = {
    "offline": OFFLINE,
    "dryrun": OFFLINE,
    "online": SYNCING,
    "shared": SYNCING,
}
