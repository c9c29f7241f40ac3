"""A checkpoint to the Hugging Face Hub: what is sent, and the one call that sends it.

An optional sink. The token comes from HF_TOKEN alone: not from a file or an argument, and it is never logged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.errors import Denied, Invalid, Refused, RunspineError, Unreachable

TOKEN = "HF_TOKEN"
ENDPOINT = "HF_ENDPOINT"
PUBLIC = "https://huggingface.co"


class HubFailed(RunspineError):
    """The Hub did not take it."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A checkpoint and its card, as they will lie in the repository."""

    checkpoint: Path
    # Name of the checkpoint's file there.
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
        raise Denied(f"{TOKEN} is not set: make a token with write access on the Hub, and set it there alone")
    return token


def send(upload: Upload, repo: str, *, private: bool = False, message: str = "") -> str:
    """Make the repository if there is none, commit the files; the address of that. Raises RunspineError."""
    token = token_of()
    try:
        from huggingface_hub import CommitOperationAdd, HfApi, errors
    except ImportError as error:
        raise Refused("the package huggingface_hub is missing: pip install 'runspine[hub]'") from error
    endpoint = os.environ.get(ENDPOINT) or PUBLIC
    api = HfApi(endpoint=endpoint, token=token, library_name="runspine")
    operations = [CommitOperationAdd(path, data) for path, data in upload.files().items()]
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        commit = api.create_commit(
            repo, operations, commit_message=message or f"checkpoint {upload.about.get('digest', '')[:12]}"
        )
    except errors.HFValidationError as error:
        raise Invalid(f"--repo {repo}: {error}") from error
    except errors.HfHubHTTPError as error:
        raise _explained(error, endpoint, repo, token) from None
    # The library's own name for errors of the network, which is another one in each of its versions.
    except (getattr(errors, "HTTPError", OSError), OSError) as error:
        raise Unreachable(f"{endpoint} does not answer: {_without(token, str(error))}") from None
    return str(commit.commit_url)


def _explained(error: Any, endpoint: str, repo: str, token: str) -> RunspineError:
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status in (401, 403):
        return Denied(f"{endpoint} does not let this token write to {repo}: give it write access there")
    if status >= 500:
        return Unreachable(f"{endpoint} answered {status}: try again later")
    return HubFailed(f"{endpoint} did not take it: {_without(token, str(error))}")


def _without(token: str, text: str) -> str:
    return " ".join(text.replace(token, "***").split())[:500]


def model_card(about: Mapping[str, Any]) -> str:
    """The page that people see, with the metadata that the Hub sorts by."""
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
    told = [(name, about.get(name)) for name in ("runner", "algo", "env", "seed", "step", "digest", "run")]
    lines += [
        "| | |",
        "|---|---|",
        *(f"| {name} | `{value}` |" for name, value in told if value not in (None, "")),
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
