"""The batch script of one run and the arguments of sbatch. Pure."""

from __future__ import annotations

import math
import shlex

from runspine.services.launcher.pools import SlurmPool
from runspine.wire.v1.run_pb2 import Run

PREFIX = "runspine"
# Slurm counts minutes; a run's own limit ends it first.
SPARE_SECONDS = 300

# Reads NAME=value lines as they are, without a shell's quoting.
_READ_FILE = """\
while IFS= read -r line || [ -n "$line" ]; do
  case "$line" in ''|'#'*) ;; *=*) export "$line" ;; esac
done < {path}
"""
_SCRIPT = """\
#!/bin/sh
# One worker of Runspine for one run. What it has to record is on Runspine's log.
# Ignored until the worker handles it.
trap '' USR1
# A job that Slurm has requeued serves the next attempt once the launcher has renamed it.
# SLURM_JOB_NAME stays as it was submitted, so the name is asked for.
if [ -n "$SLURM_RESTART_COUNT" ]; then
  name=$(squeue -h -j "$SLURM_JOB_ID" -O Name:256 | tr -d ' ')
  if [ "${{name##*-}}" != "$SLURM_RESTART_COUNT" ]; then
    echo "requeued, and not renamed by the launcher: it will submit another job"
    exit 0
  fi
fi
umask 077
{settings}
export RUNSPINE_WORKER_ID="slurm-{run}-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}"
export RUNSPINE_WORKER_DIR={directory}/"$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}"
mkdir -p "$RUNSPINE_WORKER_DIR" || exit 1
cd "$RUNSPINE_WORKER_DIR" || exit 1
exec {python} -P -m runspine.services.worker
"""


def job_name(pool: str, run_id: str, attempt: int, restarts: int) -> str:
    """The name carries what the launcher needs to know of a job after a restart."""
    return f"{PREFIX}-{pool}-{run_id}-{attempt}-{restarts}"


def parse_name(pool: str, name: str) -> tuple[str, int, int] | None:
    """Run, attempt and restarts of a job of this pool; None when it is not one."""
    head = f"{PREFIX}-{pool}-"
    words = name.removeprefix(head).split("-")
    if not name.startswith(head) or len(words) != 3 or not (words[1].isdigit() and words[2].isdigit()):
        return None
    return words[0], int(words[1]), int(words[2])


def worker_id(run_id: str, job_id: str, restarts: int) -> str:
    return f"slurm-{run_id}-{job_id}-{restarts}"


def script(run: Run, pool_name: str, pool: SlurmPool) -> str:
    variables = {
        **pool.variables,
        "RUNSPINE_WORKER_ONLY_RUN": run.id,
        "RUNSPINE_WORKER_POOLS": pool_name,
        "RUNSPINE_WORKER_SLOTS": "1",
        "RUNSPINE_WORKER_ENGINE": "slurm",
        "RUNSPINE_DRAIN_SECONDS": str(pool.warning_seconds),
    }
    settings = _READ_FILE.format(path=shlex.quote(pool.env_file)) if pool.env_file else ""
    settings += "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    return _SCRIPT.format(
        settings=settings,
        run=run.id,
        directory=shlex.quote(pool.directory),
        python=shlex.quote(pool.python),
    )


def arguments(run: Run, pool_name: str, pool: SlurmPool) -> list[str]:
    """Arguments of sbatch, which reads the script from its stdin."""
    limits = run.spec.limits
    given = {
        "job-name": job_name(pool_name, run.id, run.attempt, 0),
        "partition": pool.partition,
        "account": pool.account,
        "qos": pool.qos,
        "reservation": pool.reservation,
        "constraint": pool.constraint,
        "gres": f"{pool.gpu_gres}:{run.spec.gpus}" if run.spec.gpus else None,
        "time": _minutes(run, pool),
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": math.ceil(limits.cpus or pool.cpus),
        "mem": f"{(limits.memory_mib or pool.memory_mib) + pool.overhead_mib}M",
        "signal": f"B:USR1@{pool.warning_seconds}",
        "output": f"{pool.directory}/slurm-%j.log",
        "open-mode": "append",
    }
    named = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return ["--parsable", "--requeue", "--chdir=/", *named, *pool.options]


def _minutes(run: Run, pool: SlurmPool) -> int | None:
    """Minutes of the job: what the run's own limit needs, at most the pool's."""
    if not run.spec.limits.wall_seconds:
        return pool.time_limit_minutes
    needed = math.ceil((run.spec.limits.wall_seconds + SPARE_SECONDS + pool.warning_seconds) / 60)
    return min(needed, pool.time_limit_minutes or needed)
