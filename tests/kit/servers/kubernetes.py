"""A stand-in for the Kubernetes API, for Jobs alone. NOT Kubernetes: it answers as the published API does.

Every body is checked against Kubernetes' own OpenAPI schema, answers have the shape of batch/v1, and a
Job's container can be run as a process of this machine, so that a run can come to its end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

from tests.kit.paths import ROOT

VERSION = "1.34"
JOBS = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs(?:/([^/]+))?\Z")


class FakeKubernetes:
    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """With an environment (what secrets would bring), Jobs are really run."""
        self.folder = folder
        self.jobs: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # Answer every call with this status instead.
        self.refusing = 0
        self._environment = environment
        self._version = 100
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
                    "users": [{"name": "fake", "user": {"token": "none"}}],
                    "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                }
            )
        )
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._changed:
            self._changed.notify_all()
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait(30)

    def set_status(self, name: str, **status: Any) -> None:
        with self._changed:
            job = self.jobs[name]
            job["status"] = {**job["status"], **status}
            self._report("MODIFIED", job)

    def finish(self, name: str, kind: str) -> None:
        self.set_status(name, active=0, ready=0, conditions=[{"type": kind, "status": "True"}])

    def create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            kubernetes_validate.validate(body, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            return 422, _status(422, "Invalid", str(error.message))
        name = body["metadata"]["name"]
        with self._changed:
            if name in self.jobs:
                return 409, _status(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
            self.created.append(json.loads(json.dumps(body)))
            body["metadata"]["uid"] = f"uid-{len(self.created)}"
            body["status"] = {"active": 1, "ready": 0}
            self.jobs[name] = body
            self._report("ADDED", body)
        if self._environment is not None:
            threading.Thread(target=self._run, args=(name, body), daemon=True).start()
        return 201, body

    def delete(self, name: str) -> tuple[int, dict[str, Any]]:
        with self._changed:
            job = self.jobs.pop(name, None)
            if job is None:
                return 404, _status(404, "NotFound", f'jobs.batch "{name}" not found')
            self.deleted.append(name)
            self._report("DELETED", job)
        if (process := self.processes.get(name)) is not None and process.poll() is None:
            process.terminate()
        return 200, _status(200, "", "")

    def _run(self, name: str, body: dict[str, Any]) -> None:
        """The pod: its command with its variables, /data being a folder of this machine."""
        [container] = body["spec"]["template"]["spec"]["containers"]
        data = self.folder / name
        data.mkdir()
        given = {each["name"]: each["value"].replace("/data", str(data)) for each in container["env"]}
        kept = {k: os.environ[k] for k in ("PATH", "LANG", "PYTHONPATH") if k in os.environ}
        command = [sys.executable, "-m", "runspine", *container["args"]]
        with (data / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**kept, **(self._environment or {}), **given, "RUNSPINE_WORKER_ID": name[-60:]},
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )
        self.processes[name] = process
        if name in self.jobs:
            self.set_status(name, ready=1)
        code = process.wait()
        if name in self.jobs:
            self.finish(name, "Failed" if code else "Complete")

    def _report(self, kind: str, job: dict[str, Any]) -> None:
        """With the lock held."""
        self._version += 1
        job["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, kind, json.loads(json.dumps(job))))
        self._changed.notify_all()

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if self._place():
                    length = int(self.headers["Content-Length"])
                    self._answer(*fake.create(json.loads(self.rfile.read(length))))

            def do_DELETE(self) -> None:
                if place := self._place():
                    self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    self._answer(*fake.delete(place[2]))

            def do_GET(self) -> None:
                if self._place():
                    asked = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
                    if asked.get("watch"):
                        self._watch(int(asked["resourceVersion"]), _selected(asked))
                    else:
                        self._list(_selected(asked))

            def _place(self) -> re.Match[str] | None:
                found = JOBS.match(urlsplit(self.path).path)
                if fake.refusing:
                    self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    self._answer(fake.refusing, _status(fake.refusing, "Forbidden", "not now"))
                    return None
                if found is None:
                    self._answer(404, _status(404, "NotFound", self.path))
                return found

            def _list(self, selector: dict[str, str]) -> None:
                with fake._changed:
                    items = [job for job in fake.jobs.values() if _matches(job, selector)]
                    version = str(fake._version)
                    body = json.loads(json.dumps(items))
                answer = {"apiVersion": "batch/v1", "kind": "JobList", "items": body}
                self._answer(200, {**answer, "metadata": {"resourceVersion": version}})

            def _watch(self, version: int, selector: dict[str, str]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    while True:
                        with fake._changed:
                            if fake._version <= version:
                                fake._changed.wait(timeout=0.5)
                            news = [each for each in fake._events if each[0] > version]
                        for at, kind, job in news:
                            version = at
                            if _matches(job, selector):
                                line = json.dumps({"type": kind, "object": job}) + "\n"
                                self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
                                self.wfile.flush()
                except OSError:
                    return

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler


def _selected(asked: dict[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in asked.get("labelSelector", "").split(",") if part)


def _matches(job: dict[str, Any], selector: dict[str, str]) -> bool:
    return all(job["metadata"]["labels"].get(name) == value for name, value in selector.items())


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure" if code >= 400 else "Success",
        "code": code,
        "reason": reason,
        "message": message,
    }
