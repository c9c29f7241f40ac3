from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.embedded.ports import (
    DEFAULTS,
    FREE_RANGE,
    GRPC_OFFSET,
    NoFreePortError,
    PortBook,
    free_range,
    is_free,
    listen_on,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ports.json"


@pytest.fixture
def book(path: Path) -> Iterator[PortBook]:
    book = PortBook(path, use_defaults=False)
    yield book
    book.close()


def test_a_chosen_port_is_held_until_its_part_starts(book: PortBook) -> None:
    port = book.choose("nats")
    assert not is_free(port)
    assert book.choose("nats") == port
    book.release(["nats"])
    assert is_free(port)


def test_a_port_is_kept_from_other_stacks_while_its_part_starts(path: Path, book: PortBook) -> None:
    port = book.choose("nats")
    book.save()
    book.release(["nats"])
    other = PortBook(path, use_defaults=False)
    assert other.choose("nats") != port
    other.close()
    book.close()
    third = PortBook(path, use_defaults=False)
    assert third.choose("nats") == port
    third.close()


def test_a_port_of_weed_is_chosen_together_with_its_grpc_port(book: PortBook) -> None:
    port = book.choose("s3-filer")
    assert not is_free(port)
    assert not is_free(port + GRPC_OFFSET)
    book.release(["s3-filer"])
    assert is_free(port + GRPC_OFFSET)


def test_a_port_of_weed_whose_grpc_port_is_taken_is_passed_over(path: Path, book: PortBook) -> None:
    first = book.choose("s3")
    book.save()
    book.close()
    with listen_on(first + GRPC_OFFSET):
        again = PortBook(path, use_defaults=False)
        assert again.choose("s3") != first
        again.close()


def test_a_remembered_port_is_used_again_even_when_the_usual_one_is_free(path: Path, book: PortBook) -> None:
    chosen = book.choose("nats")
    book.save()
    book.close()
    again = PortBook(path, use_defaults=True)
    assert again.choose("nats") == chosen
    again.close()


def test_a_remembered_port_that_is_taken_now_is_replaced(path: Path, book: PortBook) -> None:
    chosen = book.choose("nats")
    book.save()
    again = PortBook(path, use_defaults=False)
    other = again.choose("nats")
    again.save()
    again.close()
    assert other != chosen
    assert json.loads(path.read_text()) == {"nats": other}


def test_ports_of_parts_that_do_not_run_this_time_are_not_forgotten(path: Path, book: PortBook) -> None:
    path.write_text(json.dumps({"telemetry": 12345}))
    again = PortBook(path, use_defaults=False)
    nats = again.choose("nats")
    again.save()
    again.close()
    assert json.loads(path.read_text()) == {"telemetry": 12345, "nats": nats}


def test_free_ports_and_their_grpc_ports_stay_below_those_the_kernel_hands_out() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert FREE_RANGE.stop + GRPC_OFFSET <= max(low, 32_768)


def test_the_usual_ports_do_not_collide_with_each_other() -> None:
    ports = [*DEFAULTS.values(), *(p + GRPC_OFFSET for name, p in DEFAULTS.items() if name.startswith("s3"))]
    assert len(ports) == len(set(ports))


@pytest.mark.parametrize("given", ["10000", "a-b", "12000-11000", "80-90", "10000-60000"])
def test_a_range_of_ports_that_is_none_is_refused_by_name(given: str) -> None:
    with pytest.raises(NoFreePortError, match="RUNSPINE_PORTS"):
        free_range({"RUNSPINE_PORTS": given})


def test_ports_are_looked_for_in_the_range_that_was_asked_for() -> None:
    assert free_range({"RUNSPINE_PORTS": "15000-15999"}) == range(15_000, 16_000)
    assert free_range({}) == FREE_RANGE
