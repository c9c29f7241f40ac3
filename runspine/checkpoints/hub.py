"""Uploads a checkpoint with its model card to the Hugging Face Hub.

The token is read only from HF_TOKEN, not from a file or an argument, and is never logged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.errors import DeniedError, InvalidError, RefusedError, RunspineError, UnreachableError

TOKEN = "HF_TOKEN"
ENDPOINT = "HF_ENDPOINT"
PUBLIC = "https://huggingface.co"


class HubError(RunspineError):
    """The Hub refused the upload."""


@dataclass(frozen=True, slots=True)
class HubUpload:
    """A checkpoint and its model card, as files of the repository."""

    checkpoint: Path
    # Name of the checkpoint's file in the repository.
    name: str
    about: Mapping[str, Any]

    def files(self) -> dict[str, Path | bytes]:
        return {
            self.name: self.checkpoint,
            "README.md": model_card(self.about).encode(),
            "runspine.json": json.dumps(dict(self.about), indent=1, sort_keys=True).encode(),
        }


def token_of(environment: Mapping[str, str] = os.environ) -> str:
    token = environment.get(TOKEN, "").strip()
    if not token:
        raise DeniedError(
            f"{TOKEN} is not set: make a token with write access on the Hub, and set it there alone"
        )
    return token


def send(upload: HubUpload, repo: str, *, private: bool = False, message: str = "") -> str:
    """Create the repository if needed and commit the files; returns the commit's URL. Raises
    RunspineError."""
    token = token_of()
    try:
        from huggingface_hub import CommitOperationAdd, HfApi, errors
    except ImportError as error:
        raise RefusedError("the package huggingface_hub is missing: pip install 'runspine[hub]'") from error
    endpoint = os.environ.get(ENDPOINT) or PUBLIC
    api = HfApi(endpoint=endpoint, token=token, library_name="runspine")
    operations = [CommitOperationAdd(path, data) for path, data in upload.files().items()]
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        commit = api.create_commit(
            repo, operations, commit_message=message or f"checkpoint {upload.about.get('digest', '')[:12]}"
        )
    except errors.HFValidationError as error:
        raise InvalidError(f"--repo {repo}: {error}") from error
    except errors.HfHubHTTPError as error:
        raise _explained(error, endpoint, repo, token) from None
    # The name of the library's network error differs between its versions.
    except (getattr(errors, "HTTPError", OSError), OSError) as error:
        raise UnreachableError(f"{endpoint} does not answer: {_without(token, str(error))}") from None
    return str(commit.commit_url)


def _explained(error: Any, endpoint: str, repo: str, token: str) -> RunspineError:
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status in (401, 403):
        return DeniedError(f"{endpoint} does not let this token write to {repo}: give it write access there")
    if status >= 500:
        return UnreachableError(f"{endpoint} answered {status}: try again later")
    return HubError(f"{endpoint} refused the upload: {_without(token, str(error))}")


def _without(token: str, text: str) -> str:
    return " ".join(text.replace(token, "***").split())[:500]


def model_card(about: Mapping[str, Any]) -> str:
    """The model card with the metadata that the Hub indexes."""
    env, algo = str(about.get("env") or "unknown"), str(about.get("algo") or "unknown")
    lines = [
        "---",
        "library_name: runspine",
        "tags:",
        *(f"- {json.dumps(tag)}" for tag in ("reinforcement-learning", env, algo)),
    ]
    if about.get("mean") is not None:
        lines += _results(env, algo, about)
    lines += ["---", "", f"# {algo} in {env}", ""]
    rows = [(name, about.get(name)) for name in ("runner", "algo", "env", "seed", "step", "digest", "run")]
    lines += [
        "| | |",
        "|---|---|",
        *(f"| {name} | `{value}` |" for name, value in rows if value not in (None, "")),
    ]
    if about.get("mean") is not None:
        spread = f" ± {about['std']:.4g}" if about.get("std") is not None else ""
        lines.append(f"| return | {about['mean']:.6g}{spread} over {about.get('episodes') or '?'} episodes |")
    lines += [
        "",
        "Evaluate it: `runspine import FILE`, then `runspine eval "
        + str(about.get("digest", ""))[:12]
        + "`.",
    ]
    return "\n".join(lines) + "\n"


def _results(env: str, algo: str, about: Mapping[str, Any]) -> list[str]:
    spread = f" +/- {about['std']:.2f}" if about.get("std") is not None else ""
    return [
        "model-index:",
        f"- name: {json.dumps(algo)}",
        "  results:",
        "  - task:",
        "      type: reinforcement-learning",
        "      name: reinforcement-learning",
        "    dataset:",
        f"      name: {json.dumps(env)}",
        f"      type: {json.dumps(env)}",
        "    metrics:",
        "    - type: mean_reward",
        f"      value: {_quoted(about['mean'], spread)}",
        "      name: mean_reward",
    ]


def _quoted(mean: float, spread: str) -> str:
    return json.dumps(f"{mean:.2f}{spread}")
