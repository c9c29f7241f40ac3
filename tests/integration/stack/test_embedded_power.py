"""A stack that is started after its machine has lost power."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.embedded.nats import remove_torn_beats

PARTS = {"nats", "s3", "orchestrator"}


@pytest.mark.long
async def test_a_stack_comes_up_although_the_beats_have_lost_their_description(tmp_path: Path) -> None:
    """Beats are not synced, their description neither: without it nats-server never got ready again."""
    async with running_stack(tmp_path / "home", only=PARTS):
        pass
    [beats] = (tmp_path / "home" / "nats").glob("**/streams/BEATS")
    for name in ("meta.inf", "meta.sum"):
        (beats / name).write_bytes(b"")
    async with running_stack(tmp_path / "home", only=PARTS) as stack:
        assert stack.parts["nats"].state == "ready"
        assert (beats / "meta.inf").stat().st_size > 0


def test_only_beats_without_a_description_are_removed(tmp_path: Path) -> None:
    whole, torn, runs = (
        tmp_path / "jetstream" / account / "streams" / name
        for account, name in (("A", "BEATS"), ("B", "BEATS"), ("B", "RUNS"))
    )
    for folder, described in ((whole, b"{}"), (torn, b""), (runs, b"")):
        folder.mkdir(parents=True)
        (folder / "meta.inf").write_bytes(described)
        (folder / "meta.sum").write_bytes(described)
    remove_torn_beats(tmp_path)
    assert whole.is_dir()
    assert not torn.exists()
    assert runs.is_dir(), "facts are never removed"
