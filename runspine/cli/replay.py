"""`runspine replay`: an episode played again, proven the same, and drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runspine.cli.ask import run_argument, run_id_of
from runspine.cli.edge import FAILED, OK, Outcome, json_option
from runspine.cli.screen import is_live, say_json
from runspine.client import Client

if TYPE_CHECKING:
    from runspine.cli.replayed import Told
    from runspine.replay import Record, Replay
    from runspine.replay.film import Film

# The replay is not the original: what it gave is not what was recorded.
DIVERGED = 6


class SizeType(click.ParamType[tuple[int, int]]):
    name = "WxH"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        match = re.fullmatch(r"(\d{1,5})[xX×](\d{1,5})", value)
        size = (int(match[1]), int(match[2])) if match else (0, 0)
        if not (16 <= size[0] <= 7680 and 16 <= size[1] <= 7680):
            self.fail(f"{value}: expected a width and a height such as 640x480", param, ctx)
        return size


@click.command()
@run_argument
@click.argument("episode")
@click.option("--step", type=click.IntRange(0), help="Show this step; 0 is the first action.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write clip.mp4, clip.gif or frame.png."
)
@click.option("--size", type=SizeType(), help="Size of the frames; as the env draws them when absent.")
@click.option("--fps", type=click.IntRange(1, 240), help="Frames a second; the env's own when absent.")
@click.option("--attempt", type=click.IntRange(1), help="Of an id that several attempts have.")
@click.option("--agent", help="Whose steps to show, of an episode with several agents.")
@click.option("--stored", is_flag=True, help="Show the observations on record; play nothing.")
@json_option
def replay(
    run: str,
    episode: str,
    step: int | None,
    out: Path | None,
    size: tuple[int, int] | None,
    fps: int | None,
    attempt: int | None,
    agent: str | None,
    stored: bool,
    as_json: bool,
) -> None:
    """Play an episode of a run again and check every step against the record.

    EPISODE is an index from `runspine episodes`, an id, or best, worst, longest, shortest, first, last.
    Exit code 0: every step came out as recorded. 6: it diverged, and is not the original. 1: it could
    not be played at all; what is on record is shown.
    """
    from runspine.replay.finding import earlier_episodes, find_episode

    if out is not None:
        _check_out(out, size, step)
    with Client() as client:
        run_id = run_id_of(client, run)
        record = find_episode(client, run_id, episode, attempt or 0, agent)
        before = [] if stored else earlier_episodes(client, run_id, record)
    if step is not None and step >= record.length:
        raise click.UsageError(f"--step {step}: the record of this episode has {record.length:,} steps")
    code = _Command(run_id, record, before, step, out, size, fps, as_json).run(stored)
    raise Outcome(code)


class _Command:
    """One replay on its way to the screen."""

    def __init__(
        self,
        run_id: str,
        record: Record,
        before: list[Record],
        step: int | None,
        out: Path | None,
        size: tuple[int, int] | None,
        fps: int | None,
        as_json: bool,
    ) -> None:
        self.run_id, self.record, self.before = run_id, record, before
        self.step, self.out, self.size, self.fps, self.as_json = step, out, size, fps, as_json

    def run(self, stored: bool) -> int:
        """Say everything; the exit code."""
        from runspine.cli.replayed import Told
        from runspine.replay import NoEnv, Replay

        told, code = Told(self.run_id, self.record), OK
        try:
            if not stored:
                played = Replay(self.record, before=self.before)
                told.verdict(played.verdict)
                self._film(played, told)
                code = DIVERGED if told.drawn or not played.verdict.exact else OK
                code = code or (FAILED if told.unfilmed else OK)
        except NoEnv as error:
            told.stored(str(error))
            code = FAILED
        if stored:
            told.stored("as asked, nothing was played")
        if told.is_stored:
            self._film(None, told)
        if self.step is not None:
            told.step(self.step)
        if self.as_json:
            say_json(told.plain())
        else:
            told.say()
        return code

    def _film(self, played: Replay | None, told: Told) -> None:
        if self.out is None:
            return
        from runspine.replay.camera import NoFrame
        from runspine.replay.clip import write_clip
        from runspine.replay.film import filmed, stored

        only = self.step
        if only is None and self.out.suffix.lower() == ".png":
            divergence = played.verdict.divergence if played else None
            # Of an episode without steps, as of a reset that diverged, the only frame.
            last = self.record.length - 1 if self.record.length else None
            only = divergence.step if divergence else last
        film = filmed(played, self.size, only) if played else stored(self.record, self.size, only)
        images = (shot.image for shot in self._counted(film, only))
        # The first shot is taken before the rate is asked for: then the env has said it.
        try:
            told.clip = write_clip(self.out, images, lambda: self.fps or film.fps, self._about(played))
        except NoFrame as error:
            told.unfilmed = str(error)
        told.source = film.source
        if played and played.verdict.exact:
            told.drawn = film.divergence

    def _counted(self, film: Film, only: int | None) -> Any:
        """With a bar on a terminal: software rendering can take minutes."""
        if only is not None or not is_live(self.as_json):
            return film.shots
        from rich.progress import track

        from runspine.cli.screen import console

        total = self.record.length + 1
        return track(film.shots, "drawing", total=total, console=console(stderr=True), transient=True)

    def _about(self, played: Replay | None) -> str:
        """Goes into the file, so that it can be told apart elsewhere."""
        if played is None:
            proof = "stored observations, not re-simulated"
        elif played.verdict.divergence is None:
            proof = "re-simulated, every step as recorded"
        else:
            proof = f"NOT THE ORIGINAL: {played.verdict.divergence.where} it diverged"
        return f"{self.record.env.env_id} run {self.run_id} episode {self.record.id}: {proof}"


def _check_out(out: Path, size: tuple[int, int] | None, step: int | None) -> None:
    try:
        from runspine.replay.clip import check_target
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"--out needs the package {error.name}; install it with: pip install 'runspine[replay]'"
        ) from error
    check_target(out, size)
    if step is not None and out.suffix.lower() != ".png":
        raise click.UsageError(f"--step shows one frame: give --out a name that ends in .png, not {out.name}")
    if out.suffix.lower() == ".mp4":
        import importlib.util

        if importlib.util.find_spec("av") is None:
            raise click.UsageError(
                "mp4 needs the package av; install it with: pip install 'runspine[replay]'"
            )
