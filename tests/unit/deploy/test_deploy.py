"""The files of a deployment: closed by default, complete, and in step with the code."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from runspine.cli import cli
from runspine.cli.commands.stack.secrets import wanted_variables
from runspine.cli.commands.stack.serve import NAMES
from runspine.eventlog.permissions import USERS
from runspine.healthcheck import check
from runspine.play.llm_settings import VARIABLES, is_offered
from runspine.runners import NotReadyError
from runspine.service.bootstrap import service_keys
from runspine.service.seaweed_config import write_config
from runspine.services.worker.process.environment import resolve_secrets
from runspine.services.worker.process.proxies import PROXIES, proxy_variables
from runspine.services.worker.settings import DEFAULT_SECRETS, WorkerSettings
from runspine.storage.bucket_rights import SERVICES, S3Key, iam_policy, seaweed_identities
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.paths import ROOT
from tests.tools import requirements

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OVERRIDES = sorted((ROOT / "deploy" / "compose").glob("*.yml"))
OURS = ("bootstrap", "orchestrator", "telemetry", "artifacts", "janitor", "worker", "dashboard")
# Secrets of the user's own, which workers pass on to runs that ask for them; absent unless .env has them.
THEIRS = {"WANDB_API_KEY", "HF_TOKEN", "RUNSPINE_LLM_KEY"}


def variables_of(path: Path) -> set[str]:
    return set(re.findall(r"\$\{(\w+)", path.read_text()))


def test_nothing_but_what_people_use_has_a_port_and_that_on_loopback() -> None:
    published = {
        name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service
    }
    assert set(published) == {"orchestrator", "telemetry", "artifacts", "dashboard", "grafana"}
    for name, ports in published.items():
        for port in ports:
            assert port.startswith(("${RUNSPINE_PUBLISH:-127.0.0.1}:", "127.0.0.1:")), name


def test_the_stores_are_on_networks_of_their_own_without_a_way_out() -> None:
    services = COMPOSE["services"]
    on = {
        network: {name for name, service in services.items() if network in service["networks"]}
        for network in COMPOSE["networks"]
    }
    assert COMPOSE["networks"]["log"] == COMPOSE["networks"]["objects"] == {"internal": True}
    assert on["log"] == {
        "nats", "orchestrator", "telemetry", "artifacts", "janitor", "worker", "dashboard", "notices"
    }  # fmt: skip
    assert on["objects"] == {"s3", "cli", *OURS}
    assert services["nats"]["networks"] == ["log"]
    assert services["s3"]["networks"] == ["objects"]
    # A trainer is somebody's code: from a worker there is no way to the world unless one is opened.
    assert "worker" not in on["edge"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights_to_lose(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert service["command"] == ["serve", name]
    assert name in NAMES
    assert "mem_limit" in service


@pytest.mark.parametrize("name", ["orchestrator", "telemetry", "artifacts", "janitor", "worker"])
def test_a_service_is_given_its_own_keys_and_no_others(name: str) -> None:
    received = COMPOSE["services"][name]["environment"]
    assert received["RUNSPINE_NATS_USER"] == name
    secrets = {
        value
        for value in received.values()
        if isinstance(value, str) and re.search("PASSWORD|_KEY|TOKEN", value.partition(":-")[0])
    }
    # Absent, they are empty, which counts as not set.
    theirs = {f"${{{variable}:-}}" for variable in THEIRS} if name == "worker" else set()
    assert secrets == {
        f"${{RUNSPINE_NATS_{name.upper()}_PASSWORD}}",
        f"${{RUNSPINE_S3_{name.upper()}_ACCESS_KEY}}",
        f"${{RUNSPINE_S3_{name.upper()}_SECRET_KEY}}",
        *(() if name == "telemetry" else (f"${{RUNSPINE_SIGNING_{name.upper()}_KEY}}",)),
        *theirs,
    }


def test_a_worker_gets_what_runs_may_ask_for_and_starts_without_any_of_it() -> None:
    received = COMPOSE["services"]["worker"]["environment"]
    wanted = {*THEIRS, *PROXIES, *VARIABLES, "RUNSPINE_WANDB_PROXY"}
    assert wanted <= received.keys()
    assert received["RUNSPINE_WORKER_SECRETS"] == f"${{RUNSPINE_WORKER_SECRETS:-{DEFAULT_SECRETS}}}"
    shown = set(re.findall(r"^#(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert wanted <= shown
    unset = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", received[name]) for name in wanted}
    settings = {k.removeprefix("RUNSPINE_").lower(): v for k, v in unset.items() if k.startswith("RUNSPINE_")}
    assert not WorkerSettings.model_validate(settings).wandb_proxy
    with pytest.raises(NotReadyError, match="WANDB_API_KEY is not set"):
        resolve_secrets(RunSpec(secrets=["WANDB_API_KEY"]), unset)
    assert proxy_variables(RunSpec(), unset, every_run=True) == {}
    assert not is_offered(unset)


def test_the_janitor_of_a_deployment_is_apart() -> None:
    services = COMPOSE["services"]
    assert services["artifacts"]["environment"]["RUNSPINE_JANITOR"] == "apart"
    assert "ports" not in services["janitor"]


def test_every_image_is_pinned() -> None:
    images = [s["image"] for s in COMPOSE["services"].values()]
    images += [
        s["image"]
        for path in OVERRIDES
        for s in yaml.safe_load(path.read_text())["services"].values()
        if s and "image" in s
    ]
    for image in images:
        assert re.search(r":(v?\d+\.\d+|RELEASE\.\d{4}|\$\{RUNSPINE_TAG)", image), image
    # Our own are built here. Of NATS' no digest could be looked up: docs/howto/compose.md.
    others = [image for image in images if "RUNSPINE_TAG" not in image and "nats:" not in image]
    assert len(others) == 4
    others += re.findall(
        r"^ARG PYTHON_IMAGE=(python:3\.11\.\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    assert len(others) == 5
    for image in others:
        assert re.search(r"@sha256:[0-9a-f]{64}\}?$", image), image


@pytest.mark.parametrize("image", requirements.IMAGES)
def test_what_an_image_installs_is_pinned_by_version_and_hash(image: str) -> None:
    text = (requirements.FOLDER / f"{image}.txt").read_text().replace("\\\n", "")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    versions = requirements.pinned()
    assert [words[0] for words in lines] == [
        f"{name}=={versions[name]}"
        for name in sorted({*requirements.needed(requirements.IMAGES[image]), *requirements.BUILD})
    ], "run `python -m tests.tools.requirements`"
    for _, *hashes in lines:
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes)


def test_of_a_version_the_hashes_of_files_that_an_image_can_install_are_taken() -> None:
    files = {
        "a-1.0-cp311-cp311-manylinux_2_28_x86_64.whl": "1",
        "a-1.0-cp39-abi3-manylinux_2_28_aarch64.whl": "2",
        "a-1.0-py3-none-any.whl": "3",
        "a-1.0-cp312-cp312-manylinux_2_28_x86_64.whl": "4",
        "a-1.0-cp311-cp311-win_amd64.whl": "5",
        "a-1.0-cp313-abi3-manylinux_2_28_x86_64.whl": "6",
        "a-1.1-py3-none-any.whl": "7",
        "a-1.0.tar.gz": "8",
    }
    page = "".join(f'<a href="https://x/{name}#sha256={digit * 64}">' for name, digit in files.items())
    assert requirements.hashes("a", "1.0", page) == ["1" * 64, "2" * 64, "3" * 64]
    source = f'<a href="https://x/a-1.0.tar.gz#sha256={"8" * 64}">'
    assert requirements.hashes("a", "1.0", source) == ["8" * 64]


def test_every_secret_that_is_asked_for_is_made_and_every_one_made_is_asked_for() -> None:
    asked = {name for path in (ROOT / "docker-compose.yml", *OVERRIDES) for name in variables_of(path)}
    secret = {name for name in asked if re.search("PASSWORD|_KEY$|TOKEN$", name)}
    # No container holds the root key; its public part is no secret. Launchers run on clusters.
    apart = {"RUNSPINE_LOG_ROOT_KEY", "RUNSPINE_LOG_ROOT", "RUNSPINE_SIGNING_LAUNCHER_KEY"}
    assert secret - THEIRS == set(wanted_variables()) - apart
    assert "RUNSPINE_LOG_ROOT" in asked
    assert "RUNSPINE_LOG_ROOT_KEY" not in asked
    example = (ROOT / ".env.example").read_text()
    shown = set(re.findall(r"^#?(\w+)=", example, re.MULTILINE))
    assert set(wanted_variables()) <= shown
    assert re.findall(r"^\w*(?:PASSWORD|KEY|TOKEN)=\S+", example, re.MULTILINE) == []


def test_nats_gets_the_password_of_every_user() -> None:
    received = COMPOSE["services"]["nats"]["environment"]
    assert set(received) == {f"RUNSPINE_NATS_{user.upper()}_PASSWORD" for user in USERS}


def test_secrets_are_made_once_for_their_owner_alone_and_kept(tmp_path: Path) -> None:
    run = CliRunner()
    first = run.invoke(cli, ["secrets", "--directory", str(tmp_path), "--json"])
    assert first.exit_code == 0, first.output
    env, tokens = tmp_path / ".env", tmp_path / "tokens" / "tokens.json"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    before = env.read_text()
    pairs = dict(line.split("=", 1) for line in before.splitlines() if not line.startswith("#"))
    assert set(pairs) == set(wanted_variables())
    assert len(set(pairs.values())) == len(pairs)
    # nats-server reads these as configuration: a digit or a sign at the beginning changes their meaning.
    passwords = [value for name, value in pairs.items() if name.startswith("RUNSPINE_NATS_")]
    assert all(re.fullmatch(r"[a-z][a-z0-9]{30,}", value) for value in passwords)
    scopes = {entry["name"]: entry["scope"] for entry in json.loads(tokens.read_text())}
    assert scopes == {"owner": "admin", "dashboard": "read", "notices": "run"}
    assert not any(value in tokens.read_text() for value in pairs.values())
    again = run.invoke(cli, ["secrets", "--directory", str(tmp_path)])
    assert "nothing changed" in again.output
    assert env.read_text() == before


def test_secrets_fill_the_gaps_of_a_file_and_keep_what_a_person_wrote(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("# mine\nRUNSPINE_WORKER_SLOTS=7\nRUNSPINE_GRAFANA_PASSWORD=chosen\nRUNSPINE_TOKEN=\n")
    env.chmod(0o600)
    assert CliRunner().invoke(cli, ["secrets", "--directory", str(tmp_path)]).exit_code == 0
    text = env.read_text()
    assert text.startswith("# mine\nRUNSPINE_WORKER_SLOTS=7\nRUNSPINE_GRAFANA_PASSWORD=chosen\n")
    assert len(re.findall(r"^RUNSPINE_TOKEN=", text, re.MULTILINE)) == 1


def test_secrets_that_others_can_read_are_not_built_upon(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RUNSPINE_TOKEN=x\n")
    (tmp_path / ".env").chmod(0o644)
    refused = CliRunner().invoke(cli, ["secrets", "--directory", str(tmp_path)])
    assert refused.exit_code != 0
    assert "can be read by other users: chmod 600" in refused.output


def test_a_token_is_shown_once_and_replaces_the_one_before(tmp_path: Path) -> None:
    asked = ["secrets", "token", "anna", "--scope", "run", "--directory", str(tmp_path), "--json"]
    made = [json.loads(CliRunner().invoke(cli, asked).output) for _ in range(2)]
    stored = json.loads((tmp_path / "tokens" / "tokens.json").read_text())
    assert [entry["name"] for entry in stored] == ["anna"]
    assert made[0]["token"] != made[1]["token"]
    assert made[1]["token"] not in (tmp_path / "tokens" / "tokens.json").read_text()


def allowed(policy: dict[str, Any], action: str, resource: str, prefix: str = "") -> bool:
    """As IAM reads it: some statement grants the action on the resource."""
    for statement in policy["Statement"]:
        patterns = statement["Resource"]
        fits = any(re.fullmatch(re.escape(p).replace(r"\*", ".*"), resource) for p in patterns)
        likes = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        fits &= likes is None or any(re.fullmatch(re.escape(p).replace(r"\*", ".*"), prefix) for p in likes)
        if fits and action in statement["Action"]:
            return True
    return False


@pytest.mark.parametrize("name", list(SERVICES))
def test_a_policy_opens_a_services_own_prefixes_and_no_others(name: str) -> None:
    rights = SERVICES[name]
    policy = iam_policy("bucket", rights)
    everything = {prefix for r in SERVICES.values() for prefix in r.prefixes() if prefix} | {"other/"}
    for prefix in everything:
        place = f"arn:aws:s3:::bucket/{prefix}x"
        assert allowed(policy, "s3:GetObject", place) == (prefix in rights.read)
        assert allowed(policy, "s3:PutObject", place) == (prefix in rights.write)
        assert allowed(policy, "s3:DeleteObject", place) == (prefix in rights.remove)
        lists = "" in rights.list or prefix in rights.list
        assert allowed(policy, "s3:ListBucket", "arn:aws:s3:::bucket", prefix) == lists
        assert not allowed(policy, "s3:GetObject", f"arn:aws:s3:::another/{prefix}x")
    assert "s3:*" not in json.dumps(policy)


def test_seaweedfs_is_configured_with_the_same_table(tmp_path: Path) -> None:
    keys = {name: S3Key(f"{name}-key", f"{name}-secret") for name in SERVICES}
    made = seaweed_identities("bucket", keys, S3Key("root", "secret"))
    actions = {one["name"]: one["actions"] for one in made["identities"]}
    assert set(actions) == {"admin", *SERVICES}
    assert actions["telemetry"] == [f"{verb}:bucket/telemetry/*" for verb in ("Read", "Write", "List")]
    assert not any(action in ("Admin", "Write", "Read") for name in SERVICES for action in actions[name])
    with pytest.raises(SystemExit, match=r"RUNSPINE_S3_ADMIN_ACCESS_KEY.*`runspine secrets` makes them"):
        write_config(tmp_path, {})
    write_config(tmp_path / "config", {**wanted_variables(), "RUNSPINE_S3_BUCKET": "mine"})
    assert "Read:mine/telemetry/*" in (tmp_path / "config" / "s3.json").read_text()
    assert (tmp_path / "config" / "security.toml").read_text().count("key = ") == 4


def test_a_missing_key_is_named() -> None:
    given = wanted_variables() | {"RUNSPINE_S3_WORKER_SECRET_KEY": ""}
    with pytest.raises(SystemExit, match=r"^RUNSPINE_S3_WORKER_SECRET_KEY: not set"):
        service_keys(given)
    assert "secret" not in repr(S3Key("name", "secret"))


def test_the_health_check_reports_what_is_wrong() -> None:
    assert check("127.0.0.1:0") == (
        False,
        "RUNSPINE_METRICS_ADDRESS is '127.0.0.1:0': give it a fixed port, such as 0.0.0.0:9100",
    )
    well, emitted = check("127.0.0.1:1", timeout=1)
    assert not well
    assert "nothing answers at 127.0.0.1:1" in emitted


def test_serve_names_what_there_is() -> None:
    refused = CliRunner().invoke(cli, ["serve", "nothing"])
    assert refused.exit_code == 2
    assert "'orchestrator', 'telemetry', 'artifacts', 'worker', 'dashboard'" in refused.output
