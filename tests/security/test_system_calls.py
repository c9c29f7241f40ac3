"""The filter of system calls: what it decides, on both architectures, by a reading of its own program."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from runspine.services.worker.process.system_calls import (
    ALLOW,
    CLONE,
    ERROR,
    IOCTL,
    MACHINES,
    REFUSED,
    SOCKET,
    UNKNOWN,
    filter_program,
)

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
I386 = 0x40000003


def decided(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would answer: the program run on one system call."""
    program = filter_program(machine)
    steps = list(struct.iter_unpack("HBBI", program))
    arch = MACHINES[machine][0] if architecture is None else architecture
    given = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("IIQ6Q", number, arch, 0, *given)
    loaded, place = 0, 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (loaded,) = struct.unpack_from("I", data, value)
            continue
        met = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
        place += yes if met else no


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_of_the_tables_is_refused_and_others_are_allowed(machine: str) -> None:
    column = MACHINES[machine][1]
    for table, error in ((REFUSED, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for name, numbers in table.items():
            if numbers[column] >= 0:
                assert decided(machine, numbers[column]) == ERROR | error, name
    known = {numbers[column] for table in (REFUSED, UNKNOWN) for numbers in table.values()}
    others = set(range(600)) - known
    assert {decided(machine, number, 1) for number in others} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_refused_by_their_arguments(machine: str) -> None:
    column = MACHINES[machine][1]
    clone, ioctl, socket = CLONE[column], IOCTL[column], SOCKET[column]
    # A thread, and a process, and both in a user namespace of their own.
    threads = 0x3D0F00
    assert decided(machine, clone, threads) == decided(machine, clone, 17) == ALLOW
    assert decided(machine, clone, threads | 0x10000000) == ERROR | errno.EPERM
    assert decided(machine, clone, 17 | 0x40000000) == ERROR | errno.EPERM
    # The upper half of a request is passed over, by the kernel too.
    for request in (0x5412, 0x541C, 0x1_0000_5412):
        assert decided(machine, ioctl, 0, request) == ERROR | errno.EPERM
    assert decided(machine, ioctl, 0, 0x5413) == ALLOW
    assert {decided(machine, socket, family) for family in (1, 2, 10, 16)} == {ALLOW}
    refused = {decided(machine, socket, family) for family in range(64) if family not in (0, 1, 2, 10, 16)}
    assert refused == {ERROR | errno.EAFNOSUPPORT}


def test_other_tables_of_numbers_do_not_lead_around_it() -> None:
    assert decided("x86_64", 20, architecture=I386) == ERROR | errno.ENOSYS
    assert decided("x86_64", 0x40000000 + 39) == ERROR | errno.ENOSYS
    assert filter_program("riscv64") == b""


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    numbers = {name: int(number) for name, number in lines}
    column = MACHINES[machine][1]
    tables = {**REFUSED, **UNKNOWN, "clone": CLONE, "ioctl": IOCTL, "socket": SOCKET}
    for name, columns in tables.items():
        assert columns[column] == numbers.get(name, -1), name
