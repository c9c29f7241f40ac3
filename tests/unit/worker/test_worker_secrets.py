from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from runspine.runners import NotReadyError
from runspine.services.worker.process.environment import (
    THREAD_VARIABLES,
    known_secrets,
    resolve_secrets,
    trainer_environment,
)
from runspine.services.worker.protocol.redact import Redactor
from runspine.wire.v1.spec_pb2 import RunSpec

VALUE = 'p@ss/w"ord+1'


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE),
        quote(VALUE, safe=""),
        quote(VALUE),
        base64.b64encode(VALUE.encode()).decode(),
    ],
)
def test_a_secret_is_hidden_in_every_common_form(form: str) -> None:
    hidden = Redactor({"KEY": VALUE})(f"before {form} after")
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert "[secret KEY]" in hidden
    assert "ss" not in hidden.replace("secret", "")


def test_a_secret_that_contains_another_is_hidden_whole() -> None:
    redact = Redactor({"SHORT": "abcd", "LONG": "abcdefgh"})
    assert redact("abcdefgh abcd") == "[secret LONG] [secret SHORT]"


def test_each_line_of_a_long_secret_is_hidden() -> None:
    redact = Redactor({"PEM": "-----BEGIN-----\nMIIBOgIBAAJBAK\n-----END-----"})
    assert redact("MIIBOgIBAAJBAK") == "[secret PEM]"


def test_without_secrets_text_stays_as_it_is() -> None:
    assert Redactor({})("anything") == "anything"


@pytest.mark.parametrize(
    ("name", "environment", "reason"),
    [
        ("ABSENT", {}, "not set"),
        ("EMPTY", {"EMPTY": ""}, "not set"),
        ("SHORT", {"SHORT": "abc"}, "shorter than 4"),
        ("RUNSPINE_S3_SECRET_KEY", {"RUNSPINE_S3_SECRET_KEY": "abcdef"}, "belongs to the worker"),
    ],
)
def test_a_secret_that_cannot_be_given_is_named(name: str, environment: dict[str, str], reason: str) -> None:
    offered = {"RUNSPINE_WORKER_SECRETS": "*", **environment}
    with pytest.raises(NotReadyError, match=reason) as caught:
        resolve_secrets(RunSpec(secrets=[name]), offered)
    assert name in str(caught.value)


def test_a_run_gets_no_variable_that_the_workers_setting_does_not_name() -> None:
    own = {"WANDB_API_KEY": "0123456789", "GITHUB_TOKEN": "9876543210"}
    assert resolve_secrets(RunSpec(secrets=["WANDB_API_KEY"]), own) == {"WANDB_API_KEY": "0123456789"}
    with pytest.raises(NotReadyError, match="name it in RUNSPINE_WORKER_SECRETS"):
        resolve_secrets(RunSpec(secrets=["GITHUB_TOKEN"]), own)
    own["RUNSPINE_WORKER_SECRETS"] = "GITHUB_*"
    assert resolve_secrets(RunSpec(secrets=["GITHUB_TOKEN"]), own) == {"GITHUB_TOKEN": "9876543210"}
    with pytest.raises(NotReadyError, match="name it in RUNSPINE_WORKER_SECRETS"):
        resolve_secrets(RunSpec(secrets=["WANDB_API_KEY"]), own)


def test_passwords_of_the_worker_itself_are_hidden_too() -> None:
    own = {
        "RUNSPINE_NATS_PASSWORD": "a-password-of-nats",
        "RUNSPINE_S3_SECRET_KEY": "a-secret-key-of-s3",
        "RUNSPINE_NATS_URL": "nats://worker:a-word-in-a-url@127.0.0.1:4222",
        "RUNSPINE_TLS_SIGNING_KEY": "/etc/runspine/key.pem",
        "RUNSPINE_WORKER_ID": "a-name-of-a-worker",
        "RUNSPINE_SIGNING_KEY": "a-private-key:with-its-introduction",
    }
    redact = Redactor(known_secrets(RunSpec(), own))
    for name in ("RUNSPINE_NATS_PASSWORD", "RUNSPINE_S3_SECRET_KEY"):
        assert redact(f"got {own[name]}") == f"got [secret {name}]"
    # The private part alone, too; the introduction is on the log.
    assert "a-private-key" not in redact("a-private-key") + redact(own["RUNSPINE_SIGNING_KEY"])
    assert "a-word-in-a-url" not in redact(own["RUNSPINE_NATS_URL"])
    assert redact("a-name-of-a-worker /etc/runspine/key.pem") == "a-name-of-a-worker /etc/runspine/key.pem"


def test_a_trainer_gets_the_allowed_variables_and_no_others() -> None:
    own = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "no",
        "RUNSPINE_NATS_PASSWORD": "no",
        "TOKEN": "yes!",
        "RUNSPINE_WORKER_SECRETS": "TOKEN",
    }
    spec = RunSpec(variables={"LR": "1", "RUNSPINE_RUN_ID": "forged", "PATH": "/opt"}, secrets=["TOKEN"])
    seen = trainer_environment(spec, own, run_id="r", attempt=2, run_dir="/d", variables={"FROM_RUNNER": "1"})
    assert seen == {
        "PATH": "/opt",
        "LC_ALL": "C",
        "PYTHONUNBUFFERED": "1",
        "WANDB_DIR": "/d",
        "RUNSPINE_PROTOCOL": "1",
        "RUNSPINE_FRAMES": "1",
        "FROM_RUNNER": "1",
        "LR": "1",
        "TOKEN": "yes!",
        "RUNSPINE_RUN_ID": "r",
        "RUNSPINE_ATTEMPT": "2",
        "RUNSPINE_RUN_DIR": "/d",
        "RUNSPINE_SEED": "1",
        "RUNSPINE_PARAMS": "{}",
        "RUNSPINE_ENV_KWARGS": "{}",
        "CUDA_VISIBLE_DEVICES": "",
        **dict.fromkeys(THREAD_VARIABLES, "1"),
    }


PROXY = "http://user:password@proxy.example.org:3128"


@pytest.mark.parametrize(
    ("spec", "every_run", "seen"),
    [
        (RunSpec(), False, None),
        (RunSpec(), True, PROXY),
        (RunSpec(secrets=["WANDB_VPN_HTTPS_PROXY"]), False, PROXY),
        (RunSpec(variables={"WANDB_VPN_HTTPS_PROXY": "http://other:8080"}), False, "http://other:8080"),
        (RunSpec(variables={"WANDB_VPN_HTTPS_PROXY": "http://other:8080"}), True, "http://other:8080"),
        (RunSpec(variables={"WANDB_VPN_HTTPS_PROXY": ""}), True, None),
        (RunSpec(variables={"HTTPS_PROXY": "http://mine:1"}), True, "http://mine:1"),
    ],
)
def test_a_proxy_reaches_a_trainer_when_it_is_enabled_and_only_then(
    spec: RunSpec, every_run: bool, seen: str | None
) -> None:
    own = {"PATH": "/bin", "HTTPS_PROXY": "http://workers:1", "WANDB_VPN_HTTPS_PROXY": PROXY}
    got = trainer_environment(
        spec, own, run_id="r", attempt=1, run_dir="/d", variables={}, wandb_proxy=every_run
    )
    assert got.get("HTTPS_PROXY") == seen
    assert "HTTP_PROXY" not in got
    assert ("NO_PROXY" in got) == bool(seen)


@pytest.mark.parametrize(
    "address", ["proxy:3128", "file:///etc/passwd", "http://", "http://x:99999", "http://a\nb"]
)
def test_what_is_no_address_of_a_proxy_is_refused_by_name(address: str) -> None:
    spec = RunSpec(variables={"WANDB_VPN_HTTP_PROXY": address})
    with pytest.raises(NotReadyError, match="WANDB_VPN_HTTP_PROXY is not the address of a proxy"):
        trainer_environment(spec, {}, run_id="r", attempt=1, run_dir="/d", variables={})


def test_the_password_of_a_proxy_is_struck_out() -> None:
    redact = Redactor(known_secrets(RunSpec(), {"WANDB_VPN_HTTPS_PROXY": PROXY, "PATH": "/bin"}))
    assert "password" not in redact(f"connecting through {PROXY}")
    assert known_secrets(RunSpec(), {"WANDB_VPN_HTTPS_PROXY": "http://proxy:3128"}) == {}
