"""A stack of its own for a test, used through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from runspine.embedded import Stack
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.embedded.s3 import BUCKET
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs
from tests.kit.environment import clean_environment
from tests.kit.forks.command import run_command
from tests.kit.paths import ROOT
from tests.kit.waiting import until

STORES = {"nats", "s3"}


class Shell:
    """`runspine` commands against the stack of one home."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.environment = clean_environment(RUNSPINE_HOME=str(home), OMP_NUM_THREADS="1", **variables)

    def __call__(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_command(*map(str, arguments), environment=self.environment)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: object, code: int = 0) -> Any:
        dashes = arguments.index("--") if "--" in arguments else len(arguments)
        words = (*arguments[:dashes], "--json", *arguments[dashes:])
        return json.loads(self(*words, code=code).stdout)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(*arguments),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def submit(self, *arguments: object) -> str:
        run_id: str = self.json("submit", *arguments)["runs"][0]["run"]["id"]
        return run_id

    def until(self, run_id: str, phase: str, seconds: float = 120) -> None:
        until(lambda: self.json("show", run_id)["run"]["phase"] == phase, seconds, f"{run_id} is {phase}")

    def evaluate(self, *arguments: object, code: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Every batch of scores, and the last line of the output."""
        lines = [
            json.loads(line) for line in self("eval", *arguments, "--json", code=code).stdout.splitlines()
        ]
        return [line["score"] for line in lines if "score" in line], lines[-1]

    def refused(self, *arguments: object, code: int = 2) -> str:
        """How a command is refused. While no worker can answer a launch check, it is tried again."""

        def attempt() -> str | None:
            done = run_command(*map(str, arguments), environment=self.environment)
            return done.stderr if done.returncode == code else None

        return until(attempt)

    def client(self) -> Client:
        return Client(find_endpoint(self.environment))

    def _command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "runspine", *map(str, arguments)]


async def damaged(shell: Shell) -> str:
    """A digest under which S3 has other bytes."""
    home = Home.at(Path(shell.environment["RUNSPINE_HOME"]))
    record, keys = running_record(home), load_credentials(home)
    assert record is not None
    settings = ServiceSettings(
        s3_endpoint=record.addresses["s3"],
        s3_access_key=keys.s3_access_key,
        s3_secret_key=SecretStr(keys.s3_secret_key),
    )
    digest = "bad0" * 16
    await S3Blobs(settings).put(f"artifacts/sha256/{digest[:2]}/{digest}", b"something else")
    return digest


def worker_variables(stack: Stack) -> dict[str, str]:
    """What a secret would hold on a cluster."""
    credentials = stack.credentials
    return {
        "RUNSPINE_NATS_URL": f"nats://{stack.addresses['nats']}",
        "RUNSPINE_NATS_USER": "worker",
        "RUNSPINE_NATS_PASSWORD": credentials.nats["worker"],
        "RUNSPINE_S3_ENDPOINT": stack.addresses["s3"],
        "RUNSPINE_S3_ACCESS_KEY": credentials.s3_access_key,
        "RUNSPINE_S3_SECRET_KEY": credentials.s3_secret_key,
        "RUNSPINE_S3_BUCKET": BUCKET,
        "RUNSPINE_LOG_ROOT": credentials.log_root,
        "RUNSPINE_SIGNING_KEY": credentials.signing["worker"],
    }
