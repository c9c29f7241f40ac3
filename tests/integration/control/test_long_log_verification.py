"""`events verify` of a long signed log: by a process for each core, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.backup.log_export import write_export
from runspine.bench.control.seed_log import life_of
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Version
from runspine.eventlog.signing import SigningKey, new_signing_key
from runspine.ids import ulid
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo

ROOT = SigningKey(bytes(range(32)))
FINISHED_RUNS, COMMITS_A_RUN = 6_000, 5
MAX_MIB = 400


def _records() -> Iterator[LogRecord]:
    """Both streams of finished runs, each commit signed by the service that may write it."""
    keys = {
        "RUNS": SigningKey.parse(new_signing_key(ROOT, "orchestrator", 1)),
        "ATTEMPTS": SigningKey.parse(new_signing_key(ROOT, "worker", 1)),
    }
    for sequence, key in enumerate(keys.values(), 1):
        yield _record("RUNS", sequence, f"signers.{key.id}", key.introduction)
    for stream, start in (("RUNS", 2), ("ATTEMPTS", 0)):
        sequence = start
        for number in range(FINISHED_RUNS):
            run_id = ulid(number, number.to_bytes(10, "big"))
            [(subject, commits)] = [
                each for each in life_of(run_id, number, 1) if each[0].startswith(stream.lower())
            ]
            version = Version()
            for facts in commits:
                data = seal(version, facts, f"{number}", "seed", subject=subject, key=keys[stream])
                version = Version(0, version.number + 1, digest_of(data))
                sequence += 1
                yield _record(stream, sequence, subject, data)


def _record(stream: str, sequence: int, subject: str, data: bytes) -> LogRecord:
    return LogRecord(stream=stream, sequence=sequence, subject=subject, commit=data, digest=digest_of(data))


@pytest.mark.long
def test_a_long_log_is_verified_on_all_cores_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    ends = {"RUNS": FINISHED_RUNS * 3 + 2, "ATTEMPTS": FINISHED_RUNS * 2}
    streams = [StreamInfo(name=name, last_sequence=last) for name, last in ends.items()]
    with write_export(path, streams, 1) as put:
        for record in _records():
            put(record)
    # The peak of the command and of each of its processes.
    command = [sys.executable, "-c", _MEASURED, str(path)]
    environment = {**os.environ, "RUNSPINE_LOG_ROOT": ROOT.public.hex()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    peaks = [int(word) for word in done.stderr.split()[-2:]]
    verdict = json.loads(done.stdout)
    assert verdict["whole"]
    assert verdict["processes"] == len(os.sched_getaffinity(0))
    assert sum(each["signed"] for each in verdict["streams"].values()) == FINISHED_RUNS * COMMITS_A_RUN
    rate = FINISHED_RUNS * COMMITS_A_RUN / verdict["seconds"]
    print(f"{rate:,.0f} commits/s by {verdict['processes']} processes; peaks {peaks} KiB")
    assert max(peaks) < MAX_MIB << 10, peaks


_MEASURED = """
import resource, sys
from runspine.cli import cli
try:
    if __name__ == "__main__":
        cli(["events", "verify", "--json", "--file", sys.argv[1]], standalone_mode=False)
finally:
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        print(resource.getrusage(who).ru_maxrss, file=sys.stderr)
"""
