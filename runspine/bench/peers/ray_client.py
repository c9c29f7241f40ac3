"""Times Ray jobs that do nothing, with a Python that has ray[default] and not runspine.

`python ray_client.py ADDRESS JOBS BURST` prints the times of each job and of a burst as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

POLL_SECONDS = 0.01
# As many clients as in our benchmark.
CLIENTS = 16


def finished(client: Any, job: str) -> float:
    """Wait for the end of a job; return when it was first seen running, or its end."""
    running = 0.0
    while True:
        status = client.get_job_status(job)
        if status == "RUNNING" and not running:
            running = time.perf_counter()
        if status.is_terminal():
            assert status == "SUCCEEDED", status
            return running or time.perf_counter()
        time.sleep(POLL_SECONDS)


def main(address: str, jobs: int, burst: int) -> dict[str, Any]:
    from ray.job_submission import JobSubmissionClient  # type: ignore[import-not-found,unused-ignore]

    client = JobSubmissionClient(address)
    finished(client, client.submit_job(entrypoint="true"))
    running, done = [], []
    for _ in range(jobs):
        began = time.perf_counter()
        running.append(finished(client, client.submit_job(entrypoint="true")) - began)
        done.append(time.perf_counter() - began)
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        waiting = list(clients.map(lambda _: client.submit_job(entrypoint="true"), range(burst)))
    admitted = time.perf_counter() - began
    for job in waiting:
        finished(client, job)
    together = time.perf_counter() - began
    return {"running": running, "done": done, "admitted": admitted, "together": together, "burst": burst}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
