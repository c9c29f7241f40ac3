"""The `runspine` command. Importing it pulls in click alone; each subcommand loads when it is used."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from runspine import __version__
from runspine.cli.lazy import Entry, LazyGroup

SECTIONS: dict[str, dict[str, Entry]] = {
    "The stack": {
        "up": Entry("runspine.cli.stack:up", "Start the stack on this machine."),
        "down": Entry("runspine.cli.stack:down", "Stop it."),
        "status": Entry("runspine.cli.stack:status", "What runs, and whether it is well."),
        "web": Entry("runspine.cli.web:web", "Open the web page, logged in."),
        "serve": Entry("runspine.cli.serve:serve", "Run one service in this process, as in a container."),
        "secrets": Entry("runspine.cli.secrets:secrets", "Passwords and tokens for docker compose."),
        "doctor": Entry("runspine.cli.stack:doctor", "Check this machine and the services, with remedies."),
    },
    "Asking for runs": {
        "train": Entry(
            "runspine.cli.train:train", "Submit and follow to the end; starts a stack if none is up."
        ),
        "submit": Entry("runspine.cli.submit:submit", "Submit a run file, or a command."),
        "sweep": Entry("runspine.cli.sweep:sweep", "Search for good parameters; trials are runs."),
        "eval": Entry("runspine.cli.eval:eval_", "Let a checkpoint's policy act, and measure it."),
        "play": Entry(
            "runspine.cli.play:play", "Steer an env yourself, or watch a policy; swap at any time."
        ),
        "fork": Entry("runspine.cli.fork:fork", "Train on from a step of a recorded episode."),
        "validate": Entry("runspine.cli.validate:validate", "Check a run file without running it."),
        "resubmit": Entry("runspine.cli.change:resubmit", "Submit a run again, with changes."),
        "cancel": Entry("runspine.cli.change:cancel", "Stop runs."),
        "priority": Entry("runspine.cli.change:priority", "Change the priority of a waiting run."),
        "label": Entry("runspine.cli.change:label", "Set and remove labels of a run."),
    },
    "Looking": {
        "ls": Entry("runspine.cli.ls:ls", "List runs."),
        "show": Entry("runspine.cli.show:show", "Everything about one run."),
        "watch": Entry("runspine.cli.watch:watch", "Follow one run, or all of them."),
        "logs": Entry("runspine.cli.logs:logs", "What a trainer printed."),
        "mind": Entry("runspine.cli.mind:mind", "What an agent wants, believes and intends."),
        "episodes": Entry("runspine.cli.episodes:episodes", "Episodes of a run, by return, length or time."),
        "replay": Entry("runspine.cli.replay:replay", "Play an episode again, proven step by step."),
        "video": Entry("runspine.cli.video:video", "A clip again from telemetry, proven frame for frame."),
        "metrics": Entry("runspine.cli.metrics:metrics", "Series of a run: list, chart, export."),
        "compare": Entry("runspine.cli.compare:compare", "Curves of several runs, over their seeds."),
        "leaderboard": Entry("runspine.cli.leaderboard:leaderboard", "Evaluated checkpoints, best first."),
        "actors": Entry("runspine.cli.actors:actors", "Who can act in an env."),
        "workers": Entry("runspine.cli.fleet:workers", "Who runs the runs."),
        "runners": Entry("runspine.cli.runners:runners", "What can be run, and a test of it."),
    },
    "What runs leave behind": {
        "checkpoints": Entry("runspine.cli.checkpoints:checkpoints", "What can be loaded, the best first."),
        "datasets": Entry("runspine.cli.datasets:datasets", "What offline algorithms learn from."),
        "import": Entry("runspine.cli.import_:import_", "Take in checkpoints from outside."),
        "artifacts": Entry("runspine.cli.artifacts:artifacts", "Files of runs: list, get, verify, usage."),
        "pin": Entry("runspine.cli.pin:pin", "Keep artifacts whatever the rules say."),
        "unpin": Entry("runspine.cli.pin:unpin", "Leave them to the rules again."),
        "retention": Entry("runspine.cli.retention:retention", "The rules of what is kept."),
        "prune": Entry("runspine.cli.prune:prune", "Remove what no rule keeps, or take that back."),
    },
    "Other tools": {
        "export-hub": Entry("runspine.cli.export_hub:export_hub", "A checkpoint to the Hugging Face Hub."),
        "export": Entry("runspine.cli.export:export", "To TensorBoard, W&B, Minari, CSV or Parquet."),
        "trace": Entry("runspine.cli.trace:trace", "Where a run's time went; to OpenTelemetry."),
        "tensorboard": Entry("runspine.cli.tensorboard:tensorboard", "Look at runs in TensorBoard."),
    },
    "The log and the tool": {
        "events": Entry("runspine.cli.events:events", "Tail, verify and export the log."),
        "backup": Entry("runspine.cli.backup:backup", "The whole system into a folder or a file."),
        "restore": Entry("runspine.cli.restore:restore", "A backup into an empty system."),
        "bench": Entry("runspine.cli.bench:bench", "Measure this machine against the targets."),
        "completion": Entry("runspine.cli.completion:completion", "Completion for your shell."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="runspine", message="%(prog)s %(version)s")
def cli() -> None:
    """Train with a log you can trust: submit runs, watch them, prove what happened."""


def main() -> NoReturn:
    """The console entry point."""
    from runspine.cli.edge import run

    sys.exit(run(cli, sys.argv[1:]))
