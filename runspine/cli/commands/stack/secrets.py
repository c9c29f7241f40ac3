"""`runspine secrets`: generate the passwords, keys and tokens of a deployment; revoke tokens."""

from __future__ import annotations

import contextlib
import os
import re
import secrets as random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from runspine.cli.errors import OK, json_option
from runspine.rpc.token_file import MAX_NAME_LENGTH, SCOPES, Token, TokenFile, TokenFileError, day

# Initial tokens; `runspine secrets token` adds more.
TOKENS = {
    "RUNSPINE_TOKEN": ("owner", "admin"),
    "RUNSPINE_DASHBOARD_TOKEN": ("dashboard", "read"),
    "RUNSPINE_NOTICES_TOKEN": ("notices", "run"),
}
PRIVATE = 0o600
UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Directory of .env and tokens/, next to docker-compose.yml; or the home of an embedded stack.",
)


class ExpiryType(click.ParamType):  # type: ignore[type-arg] # not generic at run time
    """A time from now, such as 12h or 30d, or a date; as Unix seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if found := re.fullmatch(r"(\d{1,6})([mhdw])", str(value)):
            return time.time() + int(found[1]) * UNITS[found[2]]
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a duration, such as 12h or 30d, nor a date, such as 2027-01-31")
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return seconds if seconds > time.time() else self.fail(f"{value!r} is in the past")


@click.group(invoke_without_command=True)
@directory_option
@json_option
@click.pass_context
def secrets(ctx: click.Context, directory: Path, as_json: bool) -> int:
    """Generate .env and tokens/tokens.json for Docker Compose. Existing values are kept.

    .env holds the passwords and is readable only by you. tokens.json holds token digests for the services. A
    token of .env that was revoked is replaced.
    """
    if ctx.invoked_subcommand is not None:
        return OK
    from runspine.cli.ui.screen import echo, echo_json

    directory.mkdir(parents=True, exist_ok=True)
    environment, tokens = directory / ".env", token_file(directory)
    kept = read_variables(environment)
    with _readable_errors():
        kept = {k: v for k, v in kept.items() if k not in TOKENS or not tokens.is_revoked(v)}
        complete = {**wanted_variables(kept.get("RUNSPINE_LOG_ROOT_KEY", "")), **kept}
        made = [name for name in complete if name not in kept]
        if made:
            write_variables(environment, kept, {name: complete[name] for name in made})
        for variable, (name, scope) in TOKENS.items():
            tokens.add(name, complete[variable], scope)
    if as_json:
        echo_json({"file": str(environment), "made": made, "kept": sorted(kept), "tokens": str(tokens.path)})
    elif made:
        echo(
            f"{environment}: {len(made)} made, {len(kept)} kept. "
            f"{tokens.path}: owner (admin), dashboard (read), notices (run)."
        )
        echo("Start with: docker compose up -d --build")
    else:
        echo(f"{environment} is complete; nothing changed.")
    return OK


@secrets.command("token")
@click.argument("name")
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True)
@click.option(
    "--expires",
    type=ExpiryType(),
    metavar="TIME",
    help="Its end: 12h, 30d, 2027-01-31.  [default: never]",
)
@directory_option
@json_option
def token(name: str, scope: str, expires: float | None, directory: Path, as_json: bool) -> int:
    """Create a token for NAME and print it once. An existing token of that name ends.

    Services accept it at once, without a restart.
    """
    from runspine.cli.ui.screen import echo_json, note

    if not name.isprintable() or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise click.BadParameter(f"NAME needs 1 to {MAX_NAME_LENGTH} printable characters")
    made, tokens = random.token_urlsafe(32), token_file(directory)
    with _readable_errors():
        tokens.add(name, made, scope, expires or 0.0)
    if as_json:
        end = {"expires": day(expires)} if expires else {}
        echo_json({"name": name, "scope": scope, "token": made, **end})
    else:
        print(made)
        text = f"it ends on {day(expires)}" if expires else "it does not end"
        note(f"its digest is in {tokens.path}; {text}")
    return OK


@secrets.command("revoke")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@directory_option
@json_option
def revoke(names: tuple[str, ...], directory: Path, as_json: bool) -> int:
    """End the tokens of these names.

    Services refuse them within two seconds of the change of their file, without a restart, and end their open
    streams and page sessions.
    """
    from runspine.cli.ui.screen import echo, echo_json

    tokens = token_file(directory)
    with _readable_errors():
        known = {one.name for one in tokens.tokens()}
        unknown = [name for name in names if name not in known]
        if unknown:
            there = f"there are {', '.join(sorted(known))}" if known else "there are none"
            raise click.ClickException(f"no token of {tokens.path} is called {', '.join(unknown)}; {there}")
        for name in names:
            tokens.revoke(name, time.time())
    if as_json:
        echo_json({"revoked": list(names), "tokens": str(tokens.path)})
    else:
        echo(f"{', '.join(names)} revoked in {tokens.path}.")
    return OK


@secrets.command("tokens")
@directory_option
@json_option
def list_tokens(directory: Path, as_json: bool) -> int:
    """List tokens with scope, end and state. The tokens themselves are not stored."""
    from runspine.cli.ui.screen import echo_json, table

    with _readable_errors():
        found = token_file(directory).tokens()
    rows = [(one.name, one.scope, day(one.expires) if one.expires else "never", _state(one)) for one in found]
    keys = ("name", "scope", "expires", "state")
    if as_json:
        echo_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        table([key.upper() for key in keys], [list(row) for row in rows])
    return OK


def _state(one: Token) -> str:
    if one.revoked:
        return f"revoked {day(one.revoked)}"
    return "expired" if one.refusal(time.time()) else "valid"


def token_file(directory: Path) -> TokenFile:
    """The tokens file: in a folder that containers mount, or in the home of an embedded stack.

    A file of an earlier release is moved.
    """
    old = directory / "tokens.json"
    if (directory / "credentials.json").exists():
        return TokenFile(old, mode=PRIVATE)
    path = directory / "tokens" / "tokens.json"
    if old.exists() and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.parent.chmod(0o755)
        old.replace(path)
    return TokenFile(path)


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, TokenFileError) as error:
        raise click.ClickException(str(error)) from error


def wanted_variables(root_key: str = "") -> dict[str, str]:
    """All variables that docker-compose.yml needs, with new values; signing keys under this root, if any."""
    from runspine.eventlog.permissions import USERS
    from runspine.storage.bucket_rights import SERVICES

    found = {f"RUNSPINE_NATS_{user.upper()}_PASSWORD": _password() for user in USERS}
    for name in ("admin", *SERVICES):
        found[f"RUNSPINE_S3_{name.upper()}_ACCESS_KEY"] = f"runspine-{name}-{random.token_hex(4)}"
        found[f"RUNSPINE_S3_{name.upper()}_SECRET_KEY"] = _password()
    found["RUNSPINE_S3_SIGNING_KEY"] = random.token_hex(32)
    found["RUNSPINE_GRAFANA_PASSWORD"] = _password()
    found |= _signing_keys(root_key)
    return found | {variable: random.token_urlsafe(32) for variable in TOKENS}


def _signing_keys(root_key: str) -> dict[str, str]:
    """The root key of the log, its public part, and a signing key for each service that writes facts."""
    from runspine.clock import now_micros
    from runspine.eventlog.signing import PREFIXES, SigningKey, new_signing_key

    root = SigningKey.parse(root_key or random.token_hex(32))
    made = {
        f"RUNSPINE_SIGNING_{role.upper()}_KEY": new_signing_key(root, role, now_micros()) for role in PREFIXES
    }
    return {"RUNSPINE_LOG_ROOT_KEY": root.seed.hex(), "RUNSPINE_LOG_ROOT": root.public.hex(), **made}


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


def _write(path: Path, text: str, mode: int) -> None:
    """Write atomically; the file never has wider permissions than `mode`."""
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(path)
