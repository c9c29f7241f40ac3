"""The file of channels and rules: errors name the field, secrets are references and are never shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runspine.services.notices.core.message import chat_body, compose, webhook_body
from runspine.services.notices.edges.mail import _message
from runspine.services.notices.notices_file import MailChannel, NoticesFileError, read_notices_file
from runspine.wire.v1.facts_pb2 import NoticeDue
from runspine.wire.v1.run_pb2 import Run
from tests.kit.paths import ROOT

SLACK = {"kind": "slack", "url": {"env": "HOOK"}}


def read(folder: Path, content: Any, **environment: str) -> Any:
    path = folder / "notices.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_notices_file(path, {"HOOK": "https://hooks.example/T0/secret-part", **environment})


def test_the_file_of_the_page_is_read_as_it_stands(tmp_path: Path) -> None:
    page = (ROOT / "docs/howto/notices.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]
    for name in ("slack", "smtp", "hook"):
        (tmp_path / name).write_text("https://hooks.example/secret-part")
        text = re.sub(rf"/etc/runspine/channels/{name}\b", str(tmp_path / name), text)
    found = read(tmp_path, text)
    assert list(found.channels) == ["team", "office", "ci"]
    assert [(each.name, each.rule.on) for each in found.rules] == [("failures", "failed"), ("no-nan", "nan")]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("[", "not YAML"),
        ({"channel": {}}, "channel"),
        ({"channels": {"a": {"kind": "pager"}}}, "channels.a"),
        ({"channels": {"a b": SLACK}}, "channels.a b: use letters"),
        ({"channels": {"a": {"kind": "slack", "url": "https://x.example"}}}, "channels.a.slack.url"),
        ({"channels": {"a": {"kind": "slack", "url": {"env": "NONE"}}}}, "channels.a.url: NONE is empty"),
        ({"channels": {"a": {"kind": "slack", "url": {}}}}, "channels.a.slack.url"),
        ({"channels": {"a": {"kind": "slack", "url": {"file": "/nowhere"}}}}, "channels.a.url: /nowhere"),
        ({"channels": {"a": {"kind": "slack", "url": {"env": "FTP"}}}}, "channels.a.url: is not an address"),
        ({"channels": {"a": {"kind": "webhook", "url": "https://x.example"}}}, "channels.a.webhook.secret"),
        ({"channels": {"a": {"kind": "mail", "host": "h", "sender": "a@b", "to": []}}}, "channels.a.mail.to"),
        (
            {"channels": {"a": {"kind": "mail", "host": "h", "sender": "a@b", "to": ["c@d"], "user": "u"}}},
            "user and password",
        ),
        ({"rules": [{"name": "n", "on": "failed", "channels": ["a"]}]}, "rules.0.channels"),
        ({"rules": [{"on": "failed", "stop": True}]}, "rules.0.name"),
        ({"rules": [{"name": "", "on": "failed", "stop": True}]}, "rules.0.name"),
        ({"rules": [{"name": "n", "on": "failed", "stop": True}] * 2}, "rules.1.name"),
        ({"rules": [{"name": "n", "on": "failed", "stop": True, "wher": {}}]}, "rules.0.wher"),
        ({"rules": [{"name": "n", "on": "failed", "stop": True, "where": {"x": 1}}]}, "rules.0.where.x"),
    ],
)
def test_a_wrong_file_names_the_field_and_no_secret(tmp_path: Path, content: Any, named: str) -> None:
    with pytest.raises(NoticesFileError) as raised:
        read(tmp_path, content, FTP="ftp://secret-part.example")
    assert named in str(raised.value)
    assert "secret-part" not in str(raised.value)


def test_a_whole_file_is_read_and_shows_no_secret(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret-key\n")
    content = {
        "channels": {
            "team": SLACK,
            "hook": {"kind": "webhook", "url": "https://x.example/in", "secret": {"file": str(key)}},
        },
        "rules": [
            {
                "name": "n",
                "on": "threshold",
                "metric": "m",
                "above": 3,
                "channels": ["team"],
                "where": {"env": "e"},
            }
        ],
    }
    config = read(tmp_path, content)
    assert config.secrets == {
        ("team", "url"): "https://hooks.example/T0/secret-part",
        ("hook", "secret"): "secret-key",
    }
    assert (config.rules[0].rule.above, config.rules[0].where.env) == (3, "e")
    assert "secret" not in repr(config).replace("secret=SecretReference", "")


def test_names_of_users_mention_nobody_and_break_no_line() -> None:
    run = Run(id="r", name="<!channel> @everyone\r\nBcc: x@y.example")
    title, text = compose(run, "failed", "a\nb\x1b[2J", "stack/n")
    assert "\n" not in title
    assert text.splitlines() == ["a b [2J", "run r", "rule stack/n"]
    due = NoticeDue(id="i", title=title, text=text)
    assert "<!channel>" not in json.loads(chat_body("slack", due))["text"]
    assert "@everyone" not in json.loads(chat_body("mattermost", due))["text"]
    assert json.loads(chat_body("discord", due))["allowed_mentions"] == {"parse": []}
    channel = MailChannel(kind="mail", host="h", sender="a@b.example", to=["c@d.example"])
    message = _message(channel, due)
    assert (message["Bcc"], message["Message-ID"]) == (None, "<i@runspine>")
    assert json.loads(webhook_body(due))["title"] == title
