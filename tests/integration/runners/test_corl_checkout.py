"""Every torch script of a real CORL checkout, unmodified, on a dataset of ours.

RUNSPINE_TEST_CORL names the checkout. It takes minutes, and proves that they run, not what they reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.datasets.archive import unpack
from runspine.services.worker.runners.corl_scripts import LAUNCHER, arguments_for, scripts
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.samples.pendulum import packed

CHECKOUT = os.environ.get("RUNSPINE_TEST_CORL", "")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="RUNSPINE_TEST_CORL names no checkout of CORL")

NAMES = ["any_percent_bc", "td3_bc", "iql", "cql", "awac", "edac", "sac_n", "lb_sac", "dt"]
NAMES = [*NAMES, *(f"finetune-{name}" for name in ("iql", "awac", "cql", "cal_ql", "spot"))]
STEPS = 40
# Whatever of these a script has. `eval_every` counts epochs, but for `dt`, which counts updates.
SMALL = {
    "eval_freq": 20, "n_episodes": 1, "batch_size": 16, "buffer_size": 5000, "eval_every": 1,
    "eval_episodes": 1, "num_epochs": 1, "num_updates_on_epoch": 10, "log_every": 2, "eval_frequency": 10,
    "n_test_episodes": 1, "offline_iterations": 20, "online_iterations": 20, "num_workers": 0,
    "hidden_dim": 16, "num_critics": 2, "episode_len": 200, "seq_len": 5, "vae_iterations": 10,
    "vae_hidden_dim": 16, "warmup_steps": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corl")
    # More than the 1,000 steps that any_percent_bc takes for an episode where none is terminal.
    packed(place / "made", place / "a.zip", 6)
    unpack(place / "a.zip", place / "dataset")
    return place / "dataset"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_an_unmodified_script_trains_on_our_dataset(name: str, dataset: Path, tmp_path: Path) -> None:
    script = scripts({"RUNSPINE_CORL_DIR": CHECKOUT})[f"corl-{name}"]
    spec = RunSpec(
        algo=script.name, env="Pendulum-v1", total_steps=STEPS if script.field("total_steps") else 0
    )
    small = SMALL | ({"eval_every": STEPS // 2} if spec.total_steps else {})
    for param in script.names & small.keys():
        spec.params[param].CopyFrom(Value(integer=small[param]))
    with (tmp_path / "telemetry.jsonl").open("wb") as telemetry:
        done = subprocess.run(
            [
                sys.executable,
                LAUNCHER,
                "--path",
                CHECKOUT,
                script.path,
                *arguments_for(script, spec, tmp_path),
            ],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "RUNSPINE_DATASET": str(dataset),
                "RUNSPINE_RUN_ID": "checkout",
                "RUNSPINE_RUN_DIR": str(tmp_path),
                "RUNSPINE_TELEMETRY_FD": str(telemetry.fileno()),
            },
            cwd=tmp_path,
            pass_fds=[telemetry.fileno()],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    emitted = (tmp_path / "telemetry.jsonl").read_text()
    assert "normalized_score" in emitted or "normalized_episode" in emitted, done.stdout[-2000:]
    assert '"type":"episode"' in emitted.replace('": "', '":"')
