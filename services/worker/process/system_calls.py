"""The system calls that a sandboxed trainer is refused, as a program for the kernel's filter (seccomp). Pure.

A list of what is refused and not of what is allowed: trainers are any program. On it is what reaches into the
kernel or across namespaces and what no trainer needs. Of ptrace and process_vm_readv, which MPI and
profilers use, a trainer's own process namespace is the limit.
"""

from __future__ import annotations

import errno
import struct

# By name, the number on x86-64 and on arm64; -1 where there is none.
REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "uselib": (134, -1),
    "vhangup": (153, 58),
}
# Programs fall back to older calls when these are unknown. The flags of clone3 are out of a filter's sight.
UNKNOWN = {
    "clone3": (435, 435),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
}
CLONE, IOCTL, SOCKET = (56, 220), (16, 29), (41, 198)
# AUDIT_ARCH_* of linux/audit.h; the column of the tables.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# The second table of numbers that x86-64 has.
X32 = 0x40000000
NEW_NAMESPACES = 0x7E020000
# Typing into a terminal: TIOCSTI, TIOCLINUX.
TERMINAL = (0x5412, 0x541C)
# AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK.
FAMILIES = (0, 1, 2, 10, 16)
# Places in struct seccomp_data.
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000

Step = tuple[int, int, int, int]


def filter_program(machine: str) -> bytes:
    """The program as `struct sock_filter[]` for this machine (`os.uname().machine`); empty for others."""
    if machine not in MACHINES:
        return b""
    architecture, column = MACHINES[machine]
    steps = [
        (_LOAD, 0, 0, ARCHITECTURE),
        *_unless(architecture, errno.ENOSYS),
        (_LOAD, 0, 0, NUMBER),
        *((_AT_LEAST, 0, 1, X32), _refuse(errno.ENOSYS)),
    ]
    for table, error in ((REFUSED, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for numbers in table.values():
            if numbers[column] >= 0:
                steps += _when(numbers[column], [_refuse(error)])
    steps += _when(CLONE[column], _without_namespaces())
    steps += _when(IOCTL[column], _without_typing())
    steps += _when(SOCKET[column], _of_families())
    steps.append((_RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _refuse(error: int) -> Step:
    return _RETURN, 0, 0, ERROR | error


def _when(value: int, steps: list[Step]) -> list[Step]:
    """These steps, which end the program, if what was loaded has the value."""
    return [(_EQUAL, 0, len(steps), value), *steps]


def _unless(value: int, error: int) -> list[Step]:
    return [(_EQUAL, 1, 0, value), _refuse(error)]


def _without_namespaces() -> list[Step]:
    return [
        (_LOAD, 0, 0, FIRST),
        (_ANY_BIT, 0, 1, NEW_NAMESPACES),
        _refuse(errno.EPERM),
        (_RETURN, 0, 0, ALLOW),
    ]


def _without_typing() -> list[Step]:
    # The kernel, too, looks at the lower half of the request alone.
    refused = [step for request in TERMINAL for step in _when(request, [_refuse(errno.EPERM)])]
    return [(_LOAD, 0, 0, SECOND), *refused, (_RETURN, 0, 0, ALLOW)]


def _of_families() -> list[Step]:
    allowed = [step for family in FAMILIES for step in _when(family, [(_RETURN, 0, 0, ALLOW)])]
    return [(_LOAD, 0, 0, FIRST), *allowed, _refuse(errno.EAFNOSUPPORT)]
