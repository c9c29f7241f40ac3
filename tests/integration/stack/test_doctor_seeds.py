"""`runspine doctor` looks at every NATS server that RUNSPINE_NATS_URL names."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from runspine.doctor.nats_seeds import nats_seeds
from runspine.settings import ServiceSettings
from tests.kit.servers.nats import NatsServer, free_port


def test_each_server_has_a_line_of_its_own(nats_server: NatsServer) -> None:
    dead = f"127.0.0.1:{free_port()}"
    good, bad = nats_seeds(f"{nats_server.url}, nats://user:secret@{dead}")
    assert (good.level, bad.level) == ("ok", "warn")
    assert str(nats_server.port) in good.summary
    assert dead in bad.summary
    assert "secret" not in bad.summary


def test_a_server_that_hangs_is_named(nats_server: NatsServer) -> None:
    with nats_server.frozen():
        assert [check.level for check in nats_seeds(nats_server.url)] == ["warn"]


def test_no_setting_means_no_check() -> None:
    assert nats_seeds("") == []


def test_a_list_with_a_wrong_entry_is_refused() -> None:
    assert ServiceSettings(nats_url="nats://a:4222,tls://b:4222").nats_url
    with pytest.raises(ValidationError, match=r"'b:4222' is not nats://host:port"):
        ServiceSettings(nats_url="nats://a:4222,b:4222")
