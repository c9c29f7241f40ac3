"""Files that a script leaves: folders of TensorBoard, and what is known of a clip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspine.services.worker.artifacts.clip_meta import read_clip_meta
from runspine.services.worker.artifacts.discovery import event_files_in
from runspine.services.worker.process.usage import Totals, gpu_metrics, rates


def test_a_folder_of_tensorboard_is_its_event_files(tmp_path: Path) -> None:
    inside = tmp_path / "events" / "ppo"
    inside.mkdir(parents=True)
    for name in ("events.out.tfevents.2", "events.out.tfevents.1", "notes.txt"):
        (inside / name).write_text("x")
    for given in ("events", str(tmp_path / "events")):
        found = event_files_in(tmp_path, {"kind": "tensorboard", "path": given})
        assert found is not None
        assert [Path(each["path"]).name for each in found] == [
            "events.out.tfevents.1",
            "events.out.tfevents.2",
        ]
        assert all((tmp_path / each["path"]).is_file() for each in found)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "video", "path": "events"},
        {"kind": "tensorboard", "path": "missing"},
        {"kind": "tensorboard", "path": "/etc"},
        {"kind": "tensorboard", "path": "../.."},
        {"kind": "tensorboard", "path": "outside"},
        {"kind": "tensorboard", "path": "a\0b"},
    ],
)
def test_other_lines_and_folders_outside_are_left_to_the_check_of_files(
    tmp_path: Path, event: dict[str, str]
) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "outside").symlink_to("/etc")
    assert event_files_in(tmp_path, event) is None


def test_a_clip_has_what_its_sidecar_states(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    about = {
        "episode_id": "0-3",
        "episode_return": 21.5,
        "episode_length": 21,
        "other": [1],
        "timestamp": 1.0,
    }
    (folder / "rl-video-episode-3.meta.json").write_text(json.dumps(about))
    assert read_clip_meta(tmp_path, "videos/rl-video-episode-3.mp4") == {
        "episode": 3, "episode_id": "0-3", "return": 21.5, "length": 21, "timestamp": 1.0,
    }  # fmt: skip
    assert read_clip_meta(tmp_path, "videos/rl-video-episode-4.mp4") == {"episode": 4}
    (folder / "rl-video-episode-5.meta.json").symlink_to("/etc/passwd")
    (folder / "rl-video-episode-6.meta.json").write_text("[" * 50_000)
    assert read_clip_meta(tmp_path, "videos/rl-video-episode-5.mp4") == {"episode": 5}
    assert read_clip_meta(tmp_path, "videos/rl-video-episode-6.mp4") == {"episode": 6}


def test_counters_become_rates_and_what_cannot_be_read_is_left_out() -> None:
    before = Totals(10.0, 0.0, 0.0, None, 500.0)
    after = Totals(15.0, 10 << 20, 0.0, 7.0, 400.0)
    assert rates(before, after, 10.0) == {
        "system/cpu_percent": 50.0,
        "system/disk_read_mib_per_second": 1.0,
        "system/disk_written_mib_per_second": 0.0,
    }


def test_without_a_driver_there_are_no_figures_of_gpus() -> None:
    assert gpu_metrics([]) == {}
    assert gpu_metrics(["0"]) == {} or "system/gpu.0.percent" in gpu_metrics(["0"])
