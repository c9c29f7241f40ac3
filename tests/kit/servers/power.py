"""A file system of its own that can lose power: ext4 on a loop device, shut down without a flush."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
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
        if os.path.ismount(place):
            domain.unmount()
        image.unlink()
