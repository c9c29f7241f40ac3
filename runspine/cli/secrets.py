"""`runspine secrets`: every password, key and token of a deployment, made once."""

from __future__ import annotations

import hashlib
import json
import os
import secrets as random
from pathlib import Path

import click

from runspine.cli.edge import OK, json_option

SCOPES = ("read", "run", "admin")
# Tokens made at the beginning; more are added by `runspine secrets token`.
TOKENS = {"RUNSPINE_TOKEN": ("owner", "admin"), "RUNSPINE_DASHBOARD_TOKEN": ("dashboard", "read")}
PRIVATE, SHARED = 0o600, 0o644

directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Where .env and tokens.json lie: beside docker-compose.yml.",
)


@click.group(invoke_without_command=True)
@directory_option
@json_option
@click.pass_context
def secrets(ctx: click.Context, directory: Path, as_json: bool) -> int:
    """Write .env and tokens.json for docker compose. What is there already is kept.

    .env holds the passwords, for your eyes only. tokens.json holds digests of tokens; the services read it.
    """
    if ctx.invoked_subcommand is not None:
        return OK
    from runspine.cli.screen import say, say_json

    directory.mkdir(parents=True, exist_ok=True)
    environment, tokens = directory / ".env", directory / "tokens.json"
    kept = read_variables(environment)
    complete = {**wanted_variables(), **kept}
    made = [name for name in complete if name not in kept]
    if made:
        write_variables(environment, kept, {name: complete[name] for name in made})
    for variable, (name, scope) in TOKENS.items():
        add_token(tokens, name, complete[variable], scope)
    if as_json:
        say_json({"file": str(environment), "made": made, "kept": sorted(kept), "tokens": str(tokens)})
    elif made:
        say(f"{environment}: {len(made)} made, {len(kept)} kept. {tokens}: owner (admin), dashboard (read).")
        say("Start with: docker compose up -d --build")
    else:
        say(f"{environment} is complete; nothing was changed.")
    return OK


@secrets.command("token")
@click.argument("name")
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True)
@directory_option
@json_option
def token(name: str, scope: str, directory: Path, as_json: bool) -> int:
    """Make a token for NAME and print it, this once. A token of that name is replaced."""
    from runspine.cli.screen import say_json

    made = random.token_urlsafe(32)
    add_token(directory / "tokens.json", name, made, scope)
    if as_json:
        say_json({"name": name, "scope": scope, "token": made})
    else:
        print(made)
        click.echo("Restart orchestrator, telemetry, artifacts and dashboard to let it in.", err=True)
    return OK


def wanted_variables() -> dict[str, str]:
    """All that docker-compose.yml asks for, with fresh values."""
    from runspine.bucket_rights import SERVICES
    from runspine.log.permissions import USERS

    found = {f"RUNSPINE_NATS_{user.upper()}_PASSWORD": _password() for user in USERS}
    for name in ("admin", *SERVICES):
        found[f"RUNSPINE_S3_{name.upper()}_ACCESS_KEY"] = f"runspine-{name}-{random.token_hex(4)}"
        found[f"RUNSPINE_S3_{name.upper()}_SECRET_KEY"] = _password()
    found["RUNSPINE_S3_SIGNING_KEY"] = random.token_hex(32)
    found["RUNSPINE_GRAFANA_PASSWORD"] = _password()
    return found | {variable: random.token_urlsafe(32) for variable in TOKENS}


def _password() -> str:
    # nats-server reads the value as a piece of its configuration: a letter first, then letters and digits.
    return f"p{random.token_hex(18)}"


def read_variables(path: Path) -> dict[str, str]:
    """NAME=value lines that have a value."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    if path.stat().st_mode & 0o077:
        raise click.ClickException(f"{path} can be read by other users: chmod 600 {path}")
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def write_variables(path: Path, kept: dict[str, str], made: dict[str, str]) -> None:
    """Add to the file, leaving its comments and order alone."""
    lines = path.read_text().splitlines() if kept or path.exists() else []
    emptied = [line for line in lines if line.partition("=")[0].strip() not in made]
    head = [] if lines else ["# Made by `runspine secrets`. Keep it; never commit it."]
    body = [f"{name}={value}" for name, value in made.items()]
    _write(path, "\n".join([*head, *emptied, *body]) + "\n", PRIVATE)


def add_token(path: Path, name: str, token: str, scope: str) -> None:
    entry = {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "scope": scope}
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        stored = []
    except ValueError as error:
        raise click.ClickException(f"{path} is not JSON: {error}") from error
    others = [other for other in stored if other.get("name") != name]
    if [*others, entry] != stored and entry not in stored:
        _write(path, json.dumps([*others, entry], indent=1) + "\n", SHARED)


def _write(path: Path, text: str, mode: int) -> None:
    """Whole or not at all, and never readable by more than `mode` says."""
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(path)
