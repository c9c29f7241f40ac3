from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from runspine.runners import NotReady
from runspine.wire.v1.spec_pb2 import RunSpec
from services.worker.environment import THREADS, secrets_of, trainer_environment
from services.worker.redact import Redactor

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
    with pytest.raises(NotReady, match=reason) as caught:
        secrets_of(RunSpec(secrets=[name]), environment)
    assert name in str(caught.value)


def test_a_trainer_gets_the_allowed_variables_and_no_others() -> None:
    own = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "no",
        "RUNSPINE_NATS_PASSWORD": "no",
        "TOKEN": "yes!",
    }
    spec = RunSpec(variables={"LR": "1", "RUNSPINE_RUN_ID": "forged", "PATH": "/opt"}, secrets=["TOKEN"])
    seen = trainer_environment(spec, own, run_id="r", attempt=2, run_dir="/d", variables={"FROM_RUNNER": "1"})
    assert seen == {
        "PATH": "/opt",
        "LC_ALL": "C",
        "PYTHONUNBUFFERED": "1",
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
        **dict.fromkeys(THREADS, "1"),
    }
