"""`runspine secrets`: generate the passwords, keys and tokens of a deployment."""

from __future__ import annotations

import hashlib
import json
import os
import secrets as random
from pathlib import Path

import click

from runspine.cli.errors import OK, json_option

SCOPES = ("read", "run", "admin")
# Initial tokens; `runspine secrets token` adds more.
TOKENS = {"RUNSPINE_TOKEN": ("owner", "admin"), "RUNSPINE_DASHBOARD_TOKEN": ("dashboard", "read")}
PRIVATE, SHARED = 0o600, 0o644

directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Directory of .env and tokens.json, next to docker-compose.yml.",
)


@click.group(invoke_without_command=True)
@directory_option
@json_option
@click.pass_context
def secrets(ctx: click.Context, directory: Path, as_json: bool) -> int:
    """Generate .env and tokens.json for Docker Compose. Existing values are kept.

    .env holds the passwords and is readable only by you. tokens.json holds token digests for the services.
    """
    if ctx.invoked_subcommand is not None:
        return OK
    from runspine.cli.ui.screen import echo, echo_json

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
        echo_json({"file": str(environment), "made": made, "kept": sorted(kept), "tokens": str(tokens)})
    elif made:
        echo(f"{environment}: {len(made)} made, {len(kept)} kept. {tokens}: owner (admin), dashboard (read).")
        echo("Start with: docker compose up -d --build")
    else:
        echo(f"{environment} is complete; nothing changed.")
    return OK


@secrets.command("token")
@click.argument("name")
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True)
@directory_option
@json_option
def token(name: str, scope: str, directory: Path, as_json: bool) -> int:
    """Create a token for NAME and print it once. An existing token of that name is replaced."""
    from runspine.cli.ui.screen import echo_json

    made = random.token_urlsafe(32)
    add_token(directory / "tokens.json", name, made, scope)
    if as_json:
        echo_json({"name": name, "scope": scope, "token": made})
    else:
        print(made)
        click.echo("Restart orchestrator, telemetry, artifacts and dashboard to activate it.", err=True)
    return OK


def wanted_variables() -> dict[str, str]:
    """All variables that docker-compose.yml needs, with new values."""
    from runspine.eventlog.permissions import USERS
    from runspine.storage.bucket_rights import SERVICES

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
    """Read NAME=value lines that have a value."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    if path.stat().st_mode & 0o077:
        raise click.ClickException(f"{path} can be read by other users: chmod 600 {path}")
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def write_variables(path: Path, kept: dict[str, str], made: dict[str, str]) -> None:
    """Append variables to the file; comments and order are preserved."""
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
    """Write atomically; the file never has wider permissions than `mode`."""
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(path)
