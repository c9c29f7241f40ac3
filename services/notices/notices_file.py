"""The file of channels and rules. An error names each wrong field; secrets are given by reference."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from runspine.errors import InvalidError
from runspine.eventlog.subjects import is_token
from runspine.notice.rules import rule_name, rule_problems
from runspine.services.notices.core.triggers import Condition, StackRule
from runspine.spec.strict_yaml import plain_value, read_yaml
from runspine.wire.v1.spec_pb2 import NoticeRule


class NoticesFileError(Exception):
    """The file cannot be used; the message names each field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SecretReference(_Strict):
    """Where a secret is: never in the file itself."""

    env: str = ""
    file: Path | None = None

    @model_validator(mode="after")
    def _one(self) -> SecretReference:
        if bool(self.env) == (self.file is not None):
            raise ValueError("give either env, the name of a variable, or file, a path")
        return self

    def read(self, environment: Mapping[str, str]) -> str:
        """Raises ValueError when there is nothing."""
        if self.file is None:
            found = environment.get(self.env, "")
        else:
            try:
                found = self.file.read_text().strip()
            except OSError as error:
                raise ValueError(f"{self.file}: {error.strerror}") from None
        if not found:
            raise ValueError(f"{self.env or self.file} is empty or not set")
        return found


class WebhookChannel(_Strict):
    kind: Literal["webhook"]
    # The address, or where it is when it is a secret.
    url: str | SecretReference
    # The key of the signature.
    secret: SecretReference


class ChatChannel(_Strict):
    kind: Literal["slack", "mattermost", "discord"]
    # Of an incoming webhook. Who has it can write there, so it is a secret.
    url: SecretReference


class MailChannel(_Strict):
    kind: Literal["mail"]
    host: str = Field(min_length=1)
    port: int = Field(587, ge=1, le=65535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    to: list[Annotated[str, Field(pattern=r"^[^@\s,]+@[^@\s,]+$")]] = Field(min_length=1, max_length=50)
    user: str = ""
    password: SecretReference | None = None

    @model_validator(mode="after")
    def _login(self) -> MailChannel:
        if bool(self.user) != (self.password is not None):
            raise ValueError("user and password belong together: give both, or neither")
        return self


Channel = WebhookChannel | ChatChannel | MailChannel


class FileRule(_Strict):
    name: str
    on: str
    channels: list[str] = []
    metric: str = ""
    above: float | None = None
    below: float | None = None
    steps: int = Field(0, ge=0)
    goal: str = ""
    min_delta: float = 0.0
    drop: float = 0.0
    points: int = Field(0, ge=0)
    minutes: float = 0.0
    stop: bool = False
    labels: dict[str, str] = {}
    where: Condition = Condition()


class _File(_Strict):
    channels: dict[str, Annotated[Channel, Field(discriminator="kind")]] = {}
    rules: list[FileRule] = []


@dataclass(frozen=True)
class NoticesConfig:
    """Channels by name with their secrets, and the operator's rules."""

    channels: Mapping[str, Channel] = field(default_factory=dict)
    # By channel and field.
    secrets: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    rules: tuple[StackRule, ...] = ()


def read_notices_file(path: Path, environment: Mapping[str, str] = os.environ) -> NoticesConfig:
    """Raises NoticesFileError."""
    try:
        text = path.read_text()
        given = plain_value(read_yaml(text, str(path))) if text.strip() else None
        file = TypeAdapter(_File).validate_python(given if given is not None else {})
    except OSError as error:
        raise NoticesFileError(f"{path}: {error.strerror}") from error
    except InvalidError as error:
        raise NoticesFileError(str(error)) from error
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()]
        raise NoticesFileError("\n".join(f"{path}: {line}" for line in lines)) from None
    problems: list[str] = []
    secrets = _secrets(file, environment, problems)
    rules = _rules(file, problems)
    if problems:
        raise NoticesFileError("\n".join(f"{path}: {problem}" for problem in problems))
    return NoticesConfig(file.channels, secrets, tuple(rules))


def _secrets(file: _File, environment: Mapping[str, str], problems: list[str]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for name, channel in file.channels.items():
        if not is_token(name):
            problems.append(f"channels.{name}: use letters, digits, - and _, at most 64 of them")
        for part in type(channel).model_fields:
            value = getattr(channel, part)
            if isinstance(value, SecretReference):
                try:
                    found[name, part] = value.read(environment)
                except ValueError as error:
                    problems.append(f"channels.{name}.{part}: {error}")
            url = found.get((name, part), value) if part == "url" else None
            if isinstance(url, str) and not _is_url(url):
                problems.append(f"channels.{name}.url: is not an address of http:// or https://")
    return found


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable()
    except ValueError:
        return False


def _rules(file: _File, problems: list[str]) -> list[StackRule]:
    found, names = [], set()
    for index, given in enumerate(file.rules):
        rule = _rule(given)
        at = f"rules.{index}"
        if not given.name or given.name in names:
            problems.append(
                f"{at}.name: {given.name!r} is {'the name of two rules' if given.name else 'empty'}"
            )
        names.add(rule_name(rule, index))
        problems += [f"{at}.{name}: {what}" for name, what in rule_problems(rule, file.channels)]
        found.append(StackRule(given.name, rule, given.where))
    return found


def _rule(given: FileRule) -> NoticeRule:
    fields: dict[str, Any] = given.model_dump(exclude={"where"}, exclude_none=True)
    return NoticeRule(**fields)
