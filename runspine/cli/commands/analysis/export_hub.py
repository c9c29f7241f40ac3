"""`runspine export-hub`: upload a checkpoint to the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.checkpoint_reference import resolve
from runspine.cli.lookup.registry import card_of
from runspine.cli.ui.screen import echo, echo_json
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.artifacts_pb2 import CheckpointCard


@click.command(name="export-hub")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--repo", required=True, metavar="OWNER/NAME", help="Repository on the Hub; created if missing."
)
@click.option("--private", is_flag=True, help="Create a private repository.")
@click.option("--message", default="", help="Commit message.")
@click.option("--dry-run", is_flag=True, help="Show what would be uploaded; upload nothing.")
@json_option
def export_hub(checkpoint: str, repo: str, private: bool, message: str, dry_run: bool, as_json: bool) -> None:
    """Upload a checkpoint, with its model card and score, to a repository on the Hugging Face Hub.

    The token is read from HF_TOKEN; HF_ENDPOINT selects another Hub. CHECKPOINT as for `runspine eval`.
    """
    from runspine.checkpoints.hub import HubUpload, model_card, send, token_of
    from runspine.rpc.artifact_client import ArtifactClient

    if not dry_run:
        token_of()  # fails before anything is downloaded
    with Client() as client:
        found = resolve(client, checkpoint)
        about = about_of(card_of(client, found.digest))
        if dry_run:
            if as_json:
                echo_json({"repo": repo, "files": [found.name, "README.md", "runspine.json"], "about": about})
            else:
                echo(model_card(about).rstrip())
            return
        with tempfile.TemporaryDirectory(prefix="runspine-hub-") as folder:
            path = Path(folder) / "checkpoint"
            ArtifactClient(client).download(found.digest, path)
            url = send(HubUpload(path, found.name, about), repo, private=private, message=message)
    if as_json:
        echo_json({"repo": repo, "url": url, "about": about})
    else:
        echo(f"{found.digest[:12]} is at {url}")


def about_of(card: CheckpointCard) -> dict[str, Any]:
    """Fields of a checkpoint card as plain values."""
    score = card.score if card.HasField("score") else None
    return {
        "digest": card.artifact.digest,
        "run": "" if card.source else card.artifact.run_id,
        "env": card.env,
        "algo": card.algo,
        "runner": card.runner,
        "seed": card.seed if card.HasField("seed") else None,
        "step": card.artifact.step,
        "mean": score.mean if score else None,
        "std": score.std if score and score.HasField("std") else None,
        "episodes": score.episodes if score else None,
        "score_source": score.source if score else None,
    }
