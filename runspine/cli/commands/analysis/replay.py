"""`runspine replay`: simulate an episode again, verify every step, and render it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runspine.cli.errors import FAILED, OK, ExitCodeError, json_option
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.screen import echo_json, is_live
from runspine.rpc.trainer_client import Client

if TYPE_CHECKING:
    from runspine.cli.ui.replay_report import ReplayReport
    from runspine.replay import EpisodeRecord, Replay
    from runspine.replay.film import Film

# Exit code when the replay differs from the record.
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
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a clip (.mp4, .gif) or a frame (.png).",
)
@click.option("--size", type=SizeType(), help="Frame size.  [default: as rendered by the env]")
@click.option("--fps", type=click.IntRange(1, 240), help="Frames per second.  [default: the env's own rate]")
@click.option("--attempt", type=click.IntRange(1), help="Attempt, when several have an episode with this id.")
@click.option("--agent", help="Agent, for an episode with several.")
@click.option("--stored", is_flag=True, help="Show the recorded observations without simulating.")
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
    """Simulate an episode of a run again and compare every step with its record.

    EPISODE is an index from `runspine episodes`, an id, or best, worst, longest, shortest, first, last.
    Exit code 0: every step matches. 6: the replay diverged. 1: it could not be simulated; the record
    is shown.
    """
    from runspine.replay.episode_lookup import earlier_episodes, find_episode

    if out is not None:
        _check_out(out, size, step)
    with Client() as client:
        run_id = run_id_of(client, run)
        record = find_episode(client, run_id, episode, attempt or 0, agent)
        before = [] if stored else earlier_episodes(client, run_id, record)
    if step is not None and step >= record.length:
        raise click.UsageError(f"--step {step}: the record of this episode has {record.length:,} steps")
    code = _Command(run_id, record, before, step, out, size, fps, as_json).run(stored)
    raise ExitCodeError(code)


class _Command:
    """One invocation of `runspine replay`."""

    def __init__(
        self,
        run_id: str,
        record: EpisodeRecord,
        before: list[EpisodeRecord],
        step: int | None,
        out: Path | None,
        size: tuple[int, int] | None,
        fps: int | None,
        as_json: bool,
    ) -> None:
        self.run_id, self.record, self.before = run_id, record, before
        self.step, self.out, self.size, self.fps, self.as_json = step, out, size, fps, as_json

    def run(self, stored: bool) -> int:
        """Replay, render and print; return the exit code."""
        from runspine.cli.ui.replay_report import ReplayReport
        from runspine.replay import EnvMissingError, Replay

        report, code = ReplayReport(self.run_id, self.record), OK
        try:
            if not stored:
                played = Replay(self.record, before=self.before)
                report.verdict(played.verdict)
                self._film(played, report)
                code = DIVERGED if report.drawn or not played.verdict.exact else OK
                code = code or (FAILED if report.unfilmed else OK)
        except EnvMissingError as error:
            report.stored(str(error))
            code = FAILED
        if stored:
            report.stored("--stored was given")
        if report.is_stored:
            self._film(None, report)
        if self.step is not None:
            report.step(self.step)
        if self.as_json:
            echo_json(report.plain())
        else:
            report.echo()
        return code

    def _film(self, played: Replay | None, report: ReplayReport) -> None:
        if self.out is None:
            return
        from runspine.replay.camera import FrameError
        from runspine.replay.film import filmed, stored
        from runspine.video.files import write_clip

        only = self.step
        if only is None and self.out.suffix.lower() == ".png":
            divergence = played.verdict.divergence if played else None
            # An episode without steps, or a diverged reset, has a single frame.
            last = self.record.length - 1 if self.record.length else None
            only = divergence.step if divergence else last
        film = filmed(played, self.size, only) if played else stored(self.record, self.size, only)
        images = (shot.image for shot in self._counted(film, only))
        # The frame rate is read after the first shot, when the env has reported it.
        try:
            report.clip = write_clip(self.out, images, lambda: self.fps or film.fps, self._about(played))
        except FrameError as error:
            report.unfilmed = str(error)
        report.source = film.source
        if played and played.verdict.exact:
            report.drawn = film.divergence

    def _counted(self, film: Film, only: int | None) -> Any:
        """Wrap the shots in a progress bar on a terminal: software rendering can take minutes."""
        if only is not None or not is_live(self.as_json):
            return film.shots
        from rich.progress import track

        from runspine.cli.ui.screen import console

        total = self.record.length + 1
        return track(film.shots, "rendering", total=total, console=console(stderr=True), transient=True)

    def _about(self, played: Replay | None) -> str:
        """Metadata of the file: what it shows and whether it was verified."""
        if played is None:
            proof = "stored observations, not re-simulated"
        elif played.verdict.divergence is None:
            proof = "re-simulated, every step as recorded"
        else:
            proof = f"NOT THE ORIGINAL: {played.verdict.divergence.where} it diverged"
        return f"{self.record.env.env_id} run {self.run_id} episode {self.record.id}: {proof}"


def _check_out(out: Path, size: tuple[int, int] | None, step: int | None) -> None:
    try:
        from runspine.video.files import check_target
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
