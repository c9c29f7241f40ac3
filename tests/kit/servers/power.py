"""A file system of its own that can lose power: ext4 on a loop device, shut down without a flush."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
SIZE = 1 << 30


class PowerDomain:
    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self.place = place

    def mount(self) -> None:
        subprocess.run(
            ["mount", "-o", "loop", str(self._image), str(self.place)], check=True, capture_output=True
        )

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.place)], check=True, capture_output=True)
        if self._is_held():
            # A file system that was shut down stays so for as long as anybody has it mounted.
            copy = self._image.with_suffix(f".{uuid.uuid4().hex[:8]}")
            command = ["cp", "--sparse=always", str(self._image), str(copy)]
            subprocess.run(command, check=True, capture_output=True)
            self._image.unlink()
            self._image = copy

    def remove(self) -> None:
        if os.path.ismount(self.place):
            self.unmount()
        self._image.unlink()

    def _is_held(self) -> bool:
        """Whether a mount namespace that somebody else has made keeps it mounted."""
        command = ["losetup", "--associated", str(self._image)]
        for _ in range(20):
            if not subprocess.run(command, check=True, capture_output=True).stdout:
                return False
            time.sleep(0.05)
        return True

    def cut(self) -> None:
        """What was not synced is gone; whatever still runs there gets errors."""
        folder = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(folder)


def new_disk(image: Path, place: Path) -> PowerDomain:
    """An empty file system in `image`, mounted at `place`. Raises OSError or CalledProcessError."""
    place.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(SIZE)
    domain = PowerDomain(image, place)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    domain.mount()
    return domain


@contextmanager
def power_domain(folder: Path) -> Iterator[PowerDomain]:
    """Mounted; skips the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("a simulated loss of power needs root, to mount a file system of its own")
    image, place = folder / "disk.img", folder / "disk"
    try:
        domain = new_disk(image, place)
    except (OSError, subprocess.CalledProcessError) as error:
        emitted = getattr(error, "stderr", b"") or str(error).encode()
        pytest.skip(f"no loop device can be mounted here: {emitted.decode().strip()}")
    try:
        yield domain
    finally:
        domain.remove()
