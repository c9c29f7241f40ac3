"""What people type about artifacts, against a real service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from runspine.cli import cli
from runspine.cli.errors import run as run_cli
from tests.kit.artifacts import Rig

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run a command line; its exit code and what it printed."""
    monkeypatch.setenv("RUNSPINE_HOME", str(tmp_path))
    # No orchestrator: another stack may be on the default port.
    monkeypatch.setenv("RUNSPINE_ADDRESS", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_cli(cli, words)
        emitted = capsys.readouterr()
        return code, emitted.out, emitted.err

    return call


async def test_checkpoints_are_listed_named_fetched_pruned_and_brought_back(
    rig: Rig, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await rig.run(project="lab")
    evil = "videos/\x1b[31m../../evil.mp4"
    low = await rig.produce(run, b"low", step=100, score=1.5)
    high = await rig.produce(run, b"high", step=200, score=99.25)
    videos = [
        await rig.produce(run, f"v{n}".encode(), kind="video", name=f"videos/{n}.mp4") for n in range(3)
    ]
    await rig.produce(run, b"evil", kind="video", name=evil)
    service = rig.service()
    await rig.indexed(run, 6)
    monkeypatch.setenv("RUNSPINE_ARTIFACTS_ADDRESS", service.address)

    code, out, _ = typed("checkpoints")
    assert code == 0
    assert "CartPole-v1 / ppo" in out
    assert "99.25" in out
    assert "best of all" in out
    cards = json.loads(typed("checkpoints", "--run", run, "--json")[1])["checkpoints"]
    assert {card["artifact"]["digest"] for card in cards} == {low, high}

    code, out, err = typed("artifacts", run)
    assert "4/4 videos retained" in err
    assert "\x1b" not in out
    assert typed("artifacts", "get", f"{run}:best", "--out", "best.pt")[0] == 0
    assert Path("best.pt").read_bytes() == b"high"
    assert typed("artifacts", "get", f"{run}:best", "--out", "best.pt")[0] == 2
    # A name that a trainer chose cannot lead out of the folder.
    code, out, _ = typed("artifacts", "get", f"{run}:{evil}", "--json")
    assert Path(json.loads(out)["path"]).parent == Path(".")

    assert typed("checkpoints", "alias", "star", f"{run}:step-100")[0] == 0
    assert low in typed("artifacts", "show", "star")[1]
    assert typed("pin", videos[0][:12], "--reason", "for the paper")[0] == 0
    assert typed("pin", "nothing", videos[1])[0] == 4
    assert typed("unpin", videos[1])[0] == 0

    assert typed("retention", "set", "--max-videos", "0")[0] == 2
    code, out, _ = typed(
        "retention", "set", "--max-videos", "2", "--grace", "none", "--manual", "--project", "lab"
    )
    assert (code, "at most 2 videos a run" in out) == (0, True)
    plan = json.loads(typed("prune", "--dry-run", "--json")[1])
    shown = {item["artifact"]["digest"] for item in plan["items"]}
    assert len(shown) == 2
    assert videos[0] not in shown
    assert "2 artifacts would be pruned" in typed("prune")[1]  # nobody is there to confirm
    assert json.loads(typed("prune", "--dry-run", "--json")[1])["token"] == plan["token"]
    pruned = json.loads(typed("prune", "--yes", "--json")[1])
    assert {item["artifact"]["digest"] for item in pruned["pruned"]} == shown
    assert "2/4 videos" in typed("retention")[1]
    code, _, err = typed("artifacts", "get", shown.pop())
    assert (code, "pruned by max_videos_per_run=2" in err) == (5, True)
    assert typed("prune", "--undo", pruned["batch"])[0] == 0
    assert "4/4 videos" in typed("retention")[1]

    limits = ("--max-tensorboard-runs", "3", "--max-wandb-runs", "none", "--project", "lab")
    code, out, _ = typed("retention", "set", *limits)
    shown_limits = "at most 3 runs with TensorBoard files, any number of runs with W&B files"
    assert (code, shown_limits in out) == (0, True)
    assert "0/0 runs with tensorboard files retained" in typed("retention")[1]
    code, _, err = typed("retention", "set", "--max-wandb-runs", "3", "--run", run)
    assert "a run has no runs" in err
    assert code == 2

    code, _, err = typed("prune", "star", "--yes")
    assert (code, "stays: alias star" in err) == (5, True)
    assert "6 of 6 intact" in typed("artifacts", "verify")[1]
    await rig.blobs.put(f"artifacts/sha256/{high[:2]}/{high}", b"h!gh")
    code, out, _ = typed("artifacts", "verify", f"{run}:best")
    assert (code, "SHA-256 differs" in out) == (1, True)
    assert low in typed("artifacts", "show", f"{run}:best")[1]
    usage = json.loads(typed("artifacts", "usage", "--json")[1])
    assert {item["name"] for item in usage["kinds"]} == {"checkpoint", "video"}
    assert "no orphans" in typed("artifacts", "orphans")[1]
    for words in (("artifacts", "show", "nothing"), ("checkpoints", "--run", "nothing")):
        assert typed(*words)[0] == 4
