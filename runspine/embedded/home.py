"""The home of an embedded stack: one private directory with its data, logs and credentials."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.errors import RunspineError

OWN_FILES = ("credentials.json", "ports.json")


class HomeUnusableError(RunspineError):
    """The home directory cannot be used; the message states why and what to do."""


class HomeInUseError(RunspineError):
    """Another supervisor holds this home."""


def default_home() -> Path:
    """RUNSPINE_HOME, or `var` in the working directory."""
    return Path(os.environ.get("RUNSPINE_HOME") or "var")


@dataclass(frozen=True, slots=True)
class Home:
    """Paths in a home."""

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> Home:
        """The home at a path."""
        return cls(Path(path).expanduser().absolute())

    @property
    def stack_file(self) -> Path:
        return self.path / "stack.json"

    @property
    def credentials_file(self) -> Path:
        return self.path / "credentials.json"

    @property
    def root_key_file(self) -> Path:
        """The root key of the log, which no service receives."""
        return self.path / "log_root.json"

    @property
    def tokens_file(self) -> Path:
        return self.path / "tokens.json"

    @property
    def ignore_file(self) -> Path:
        return self.path / ".gitignore"

    @property
    def ports_file(self) -> Path:
        return self.path / "ports.json"

    @property
    def lock_file(self) -> Path:
        return self.path / "stack.lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def nats(self) -> Path:
        return self.path / "nats"

    @property
    def s3(self) -> Path:
        return self.path / "s3"

    @property
    def worker(self) -> Path:
        return self.path / "worker"

    @property
    def dashboard(self) -> Path:
        return self.path / "dashboard"

    def prepare(self) -> None:
        """Create the directories, accessible by the owner only. Raises HomeUnusableError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.check()
            self.path.chmod(0o700)
            for directory in (self.logs, self.nats, self.s3, self.worker):
                directory.mkdir(mode=0o700, exist_ok=True)
            # Neither git nor a snapshot of the project around it takes credentials and data for code.
            if not self.ignore_file.exists():
                self.ignore_file.touch(mode=0o600)
                self.ignore_file.write_text("*\n")
        except OSError as error:
            raise HomeUnusableError(
                f"cannot use {self.path} as home: {error.strerror}; "
                "change its owner, or name another in RUNSPINE_HOME"
            ) from error

    def check(self) -> None:
        """Raise HomeUnusableError when this directory cannot be a home. Changes nothing."""
        found = self.path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISDIR(found.st_mode):
            raise HomeUnusableError(f"{self.path} is not a directory; name another in RUNSPINE_HOME")
        if found.st_uid != os.geteuid():
            raise HomeUnusableError(
                f"{self.path} belongs to user {found.st_uid}, not to you; name another in RUNSPINE_HOME"
            )
        if mode & 0o700 != 0o700:
            raise HomeUnusableError(
                f"{self.path} is closed to yourself (mode {mode:03o}): chmod 700 {self.path}"
            )
        # It will hold passwords. The mode of a directory with other files is not changed.
        if mode & 0o077 and not self._is_ours():
            raise HomeUnusableError(
                f"{self.path} is open to other users (mode {mode:03o}) and would hold credentials: "
                f"chmod 700 {self.path}, or name another in RUNSPINE_HOME"
            )

    def _is_ours(self) -> bool:
        names = os.listdir(self.path)
        return not names or any(name in OWN_FILES for name in names)

    def lock(self) -> int:
        """Lock the home until the descriptor is closed or the process ends."""
        descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise HomeInUseError(f"another supervisor runs in {self.path}") from error
        return descriptor


def read_json(path: Path) -> Any:
    """The file's content, or None when there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise HomeUnusableError(
            f"{path} is not JSON ({error}); remove it, and it is written again"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically, readable by the owner only. Raises HomeUnusableError."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise HomeUnusableError(f"cannot write {path}: {error.strerror}") from error


def write_json(path: Path, value: Any) -> None:
    """Replace a file by this value as JSON, readable by the owner only."""
    write_private(path, json.dumps(value, indent=2) + "\n")
