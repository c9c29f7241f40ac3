"""The `runspine` command. Importing it loads only click; each subcommand is imported on use."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from runspine import __version__
from runspine.cli.lazy_group import CommandEntry, LazyGroup

SECTIONS: dict[str, dict[str, CommandEntry]] = {
    "Stack": {
        "up": CommandEntry(
            "runspine.cli.commands.stack.stack:up", "Start NATS, S3 and all services on this machine."
        ),
        "down": CommandEntry("runspine.cli.commands.stack.stack:down", "Stop the stack."),
        "status": CommandEntry(
            "runspine.cli.commands.stack.stack:status", "Show the parts of the stack and their health."
        ),
        "web": CommandEntry("runspine.cli.commands.stack.web:web", "Open the web page, logged in."),
        "serve": CommandEntry(
            "runspine.cli.commands.stack.serve:serve",
            "Run one service in the foreground, as a container does.",
        ),
        "secrets": CommandEntry(
            "runspine.cli.commands.stack.secrets:secrets", "Generate passwords and tokens for Docker Compose."
        ),
        "notify": CommandEntry(
            "runspine.cli.commands.stack.notify:notify", "List notices, and test the channels they go to."
        ),
        "doctor": CommandEntry(
            "runspine.cli.commands.stack.stack:doctor", "Check this machine and the services for problems."
        ),
    },
    "Submit and control runs": {
        "train": CommandEntry(
            "runspine.cli.commands.runs.train:train",
            "Submit a run and follow it; starts a stack if none is up.",
        ),
        "submit": CommandEntry("runspine.cli.commands.runs.submit:submit", "Submit a run file or a command."),
        "sweep": CommandEntry(
            "runspine.cli.commands.runs.sweep:sweep", "Search hyperparameters; every trial is a run."
        ),
        "eval": CommandEntry("runspine.cli.commands.runs.eval:eval_", "Evaluate a checkpoint."),
        "play": CommandEntry(
            "runspine.cli.commands.runs.play:play",
            "Play in an env as a person or with a policy.",
        ),
        "fork": CommandEntry(
            "runspine.cli.commands.runs.fork:fork", "Train from a step of a recorded episode."
        ),
        "validate": CommandEntry(
            "runspine.cli.commands.runs.validate:validate", "Check a run file without submitting it."
        ),
        "resubmit": CommandEntry(
            "runspine.cli.commands.runs.change:resubmit", "Submit a run again, with changes."
        ),
        "cancel": CommandEntry("runspine.cli.commands.runs.change:cancel", "Cancel runs."),
        "priority": CommandEntry(
            "runspine.cli.commands.runs.change:priority", "Change the priority of a waiting run."
        ),
        "label": CommandEntry("runspine.cli.commands.runs.change:label", "Set and remove labels of a run."),
    },
    "Inspect runs": {
        "ls": CommandEntry("runspine.cli.commands.runs.ls:ls", "List runs."),
        "show": CommandEntry("runspine.cli.commands.runs.show:show", "Show one run in detail."),
        "code": CommandEntry(
            "runspine.cli.commands.runs.code:code", "List, print or write the files of a run's code."
        ),
        "watch": CommandEntry("runspine.cli.commands.runs.watch:watch", "Follow one run, or all of them."),
        "logs": CommandEntry("runspine.cli.commands.runs.logs:logs", "Print the output of a run's trainer."),
        "stack": CommandEntry(
            "runspine.cli.commands.runs.attach:stack", "Print the Python stacks of a running trainer."
        ),
        "attach": CommandEntry(
            "runspine.cli.commands.runs.attach:attach", "Open a shell next to a running trainer."
        ),
        "turns": CommandEntry(
            "runspine.cli.commands.analysis.turns:turns", "Show prompts and answers of a language model."
        ),
        "mind": CommandEntry(
            "runspine.cli.commands.analysis.mind:mind", "Show the goals, beliefs and intentions of an agent."
        ),
        "episodes": CommandEntry(
            "runspine.cli.commands.analysis.episodes:episodes",
            "List the episodes of a run.",
        ),
        "replay": CommandEntry(
            "runspine.cli.commands.analysis.replay:replay", "Simulate an episode again and verify every step."
        ),
        "video": CommandEntry(
            "runspine.cli.commands.analysis.video:video",
            "Rebuild a video from telemetry and verify every frame.",
        ),
        "metrics": CommandEntry(
            "runspine.cli.commands.analysis.metrics:metrics",
            "List, plot and export the metric series of a run.",
        ),
        "report": CommandEntry(
            "runspine.cli.commands.analysis.report:report",
            "Make one HTML file of text, charts and tables.",
        ),
        "sql": CommandEntry(
            "runspine.cli.commands.analysis.sql:sql", "Query metrics, episodes and logs of many runs in SQL."
        ),
        "compare": CommandEntry(
            "runspine.cli.commands.analysis.compare:compare", "Compare learning curves of runs across seeds."
        ),
        "diff": CommandEntry(
            "runspine.cli.commands.analysis.diff:diff", "Show what differs between two runs."
        ),
        "reproduce": CommandEntry(
            "runspine.cli.commands.analysis.reproduce:reproduce", "Run a run again and compare every step."
        ),
        "bisect": CommandEntry(
            "runspine.cli.commands.analysis.bisect:bisect", "Find the commit that made a metric worse."
        ),
        "leaderboard": CommandEntry(
            "runspine.cli.commands.analysis.leaderboard:leaderboard", "Rank evaluated checkpoints."
        ),
        "actors": CommandEntry(
            "runspine.cli.commands.runs.actors:actors", "List the actors that can act in an env."
        ),
        "workers": CommandEntry("runspine.cli.commands.stack.workers:workers", "List workers."),
        "why": CommandEntry("runspine.cli.commands.runs.why:why", "State in one sentence why a run waits."),
        "runners": CommandEntry("runspine.cli.commands.stack.runners:runners", "List and test runners."),
    },
    "Checkpoints, datasets and artifacts": {
        "checkpoints": CommandEntry(
            "runspine.cli.commands.registry.checkpoints:checkpoints",
            "List, show, name and activate checkpoints.",
        ),
        "datasets": CommandEntry(
            "runspine.cli.commands.registry.datasets:datasets", "Manage datasets for offline training."
        ),
        "import-runs": CommandEntry(
            "runspine.cli.commands.registry.import_runs:import_runs",
            "Import runs of TensorBoard, W&B, MLflow and CSV.",
        ),
        "import": CommandEntry(
            "runspine.cli.commands.registry.import_:import_", "Import checkpoints from other tools."
        ),
        "artifacts": CommandEntry(
            "runspine.cli.commands.registry.artifacts:artifacts",
            "List, download and verify the files of runs.",
        ),
        "pin": CommandEntry(
            "runspine.cli.commands.registry.pin:pin", "Exempt artifacts from retention rules."
        ),
        "unpin": CommandEntry("runspine.cli.commands.registry.pin:unpin", "Remove pins."),
        "retention": CommandEntry(
            "runspine.cli.commands.registry.retention:retention", "Show and set retention rules."
        ),
        "prune": CommandEntry(
            "runspine.cli.commands.registry.prune:prune",
            "Remove artifacts that no rule keeps, or undo a prune.",
        ),
    },
    "Export": {
        "export-hub": CommandEntry(
            "runspine.cli.commands.analysis.export_hub:export_hub",
            "Upload a checkpoint to the Hugging Face Hub.",
        ),
        "export": CommandEntry(
            "runspine.cli.commands.analysis.export:export",
            "Export runs to TensorBoard, W&B, Minari, CSV or Parquet.",
        ),
        "trace": CommandEntry(
            "runspine.cli.commands.runs.trace:trace", "Show a run as a trace, or send it to OpenTelemetry."
        ),
        "tensorboard": CommandEntry(
            "runspine.cli.commands.stack.tensorboard:tensorboard", "Open runs in TensorBoard."
        ),
    },
    "Log and maintenance": {
        "signers": CommandEntry(
            "runspine.cli.commands.stack.signers:signers", "List, make and revoke the keys that sign commits."
        ),
        "events": CommandEntry(
            "runspine.cli.commands.stack.events:events", "Tail, verify and export the event log."
        ),
        "audit": CommandEntry(
            "runspine.cli.commands.stack.audit:audit", "Show who called what, and what was refused."
        ),
        "backup": CommandEntry(
            "runspine.cli.commands.stack.backup:backup", "Back up the whole system to a folder or a file."
        ),
        "restore": CommandEntry(
            "runspine.cli.commands.stack.restore:restore", "Restore a backup into an empty system."
        ),
        "nats-store": CommandEntry(
            "runspine.cli.commands.stack.nats_store:nats_store",
            "Check the store of a stopped nats-server.",
        ),
        "bench": CommandEntry(
            "runspine.cli.commands.stack.bench:bench", "Run the benchmarks on this machine."
        ),
        "completion": CommandEntry(
            "runspine.cli.commands.stack.completion:completion", "Print the completion script of a shell."
        ),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="runspine", message="%(prog)s %(version)s")
def cli() -> None:
    """Submit, watch and verify reinforcement learning runs on an event-sourced control plane."""


def main() -> NoReturn:
    """Console entry point."""
    from runspine.cli.errors import run

    sys.exit(run(cli, sys.argv[1:]))
