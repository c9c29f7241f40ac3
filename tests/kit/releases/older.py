"""An older release of Runspine in a virtualenv of its own, from a commit of this clone.

`RUNSPINE_TEST_OLDER=COMMIT` names the commit; by default the last one before the tree was reorganised.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.kit.paths import ROOT
from tests.kit.releases.wheel import editable_virtualenv

OLDER = os.environ.get("RUNSPINE_TEST_OLDER", "71ef573")


def missing() -> str:
    """Why there is no older release here; empty when there is one."""
    asked = ["git", "cat-file", "-e", f"{OLDER}^{{commit}}"]
    has = subprocess.run(asked, cwd=ROOT, capture_output=True).returncode == 0
    return "" if has else f"this clone does not hold commit {OLDER}"


def older_python(folder: Path) -> Path:
    """The Python of a virtualenv with the older release."""
    tree = folder / "tree"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], check=True)
    subprocess.run(["git", "checkout", "--quiet", OLDER], cwd=tree, check=True)
    return editable_virtualenv(folder / "venv", tree) / "python"


def services_of(python: Path) -> str:
    """The package of the services in that release: it was called `services` once."""
    tried = [str(python), "-P", "-c", "import runspine.services.orchestrator"]
    return "services" if subprocess.run(tried, capture_output=True).returncode else "runspine.services"
