"""Import contracts: a misplaced import in any layer is refused, by the name of the module that has it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# One import in each layer that does not belong there.
MISPLACED = {
    "runspine/domain/run/decide.py": "time",
    "runspine/domain/scores.py": "runspine.eventlog.jetstream",
    "runspine/spec/plain.py": "runspine.rpc.channel",
    "runspine/storage/blobs.py": "runspine.eventlog.jetstream",
    "runspine/eventlog/port.py": "asyncio",
    "runspine/eventlog/tail.py": "runspine.service.process",
    "runspine/service/process.py": "runspine.rpc.server",
    "runspine/rpc/channel.py": "runspine.embedded.home",
    "runspine/sdk/run.py": "runspine.services.worker.worker",
    "runspine/replay/divergence.py": "gymnasium",
    "runspine/compare/curves.py": "runspine.cli.ui.plot",
    "runspine/embedded/home.py": "runspine.services.worker.settings",
    "runspine/instrument/program.py": "runspine.services.worker.worker",
    "runspine/trainers/builtin/ppo.py": "runspine.services.worker.worker",
    "runspine/bench/kit/figures.py": "runspine.bench.report.parts",
    "runspine/cli/ui/screen.py": "runspine.cli.commands.runs.submit",
    "services/orchestrator/core/offer_plan.py": "nats",
    "services/orchestrator/core/board.py": "runspine.services.orchestrator.edges.offers",
    "services/orchestrator/edges/offers.py": "runspine.services.worker.settings",
    "services/telemetry/core/levels.py": "runspine.services.telemetry.edges.ingest",
    "services/artifacts/core/catalog.py": "runspine.services.artifacts.calls.context",
    "services/launcher/core/plan.py": "runspine.services.launcher.engines.port",
    "services/dashboard/core/draft.py": "runspine.services.dashboard.pages.runs.page",
    "services/dashboard/pages/elements/frame.py": "runspine.services.dashboard.pages.runs.page",
    "services/worker/protocol/reader.py": "asyncio",
    "services/worker/protocol/fields.py": "runspine.services.worker.telemetry.spool",
    "services/worker/telemetry/assembly/batches.py": "runspine.services.worker.telemetry.spool",
    "services/worker/telemetry/spool.py": "runspine.services.worker.artifacts.uploads",
    "services/worker/artifacts/uploads.py": "runspine.services.worker.attempt.attempt",
    "services/worker/process/limits.py": "runspine.services.worker.claim.claim",
    "services/worker/claim/claim.py": "runspine.services.worker.attempt.attempt",
    "services/worker/facts/journal.py": "runspine.services.worker.process.cgroup",
    "services/worker/live/viewers.py": "minio",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What lint-imports prints for a copy of the tree with every misplaced import in it."""
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    shutil.copytree(ROOT / "services", tree / "services", ignore=ignored)
    shutil.copytree(ROOT / "runspine", tree / "runspine", ignore=ignored, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tree)
    for path, module in MISPLACED.items():
        assert (tree / path).exists(), f"{path} is gone: name another module of its layer"
        with (tree / path).open("a") as file:
            file.write(f"\nimport {module}\n")
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env={"PYTHONPATH": str(tree)})  # type: ignore[arg-type]
    assert done.returncode == 1, done.stderr
    # Long lines are wrapped after the arrow.
    return re.sub(r"->\s+", "-> ", done.stdout[done.stdout.index("Broken contracts") :])


@pytest.mark.parametrize("path", MISPLACED)
def test_a_misplaced_import_is_refused(path: str, report: str) -> None:
    importer = path.removesuffix(".py").replace("/", ".")
    importer = importer if importer.startswith("runspine.") else f"runspine.{importer}"
    assert re.search(rf"{re.escape(importer)} -> {re.escape(MISPLACED[path])}\b", report)
