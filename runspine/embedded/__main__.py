"""The supervisor of a detached stack: `python -m runspine.embedded HOME`."""

from __future__ import annotations

import argparse
import sys

from runspine.domain.defaults import DEFAULT_POOL
from runspine.embedded.foreground import run_until_signal
from runspine.embedded.home import Home
from runspine.embedded.plan import StackOptions
from runspine.errors import RunspineError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m runspine.embedded")
    parser.add_argument("home")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--slots", type=int)
    parser.add_argument("--pools", default=DEFAULT_POOL)
    parser.add_argument("--only")
    parser.add_argument("--free-ports", action="store_true")
    parser.add_argument("--listen", default="")
    parser.add_argument("--watchdog", type=int, default=0)
    given = parser.parse_args()
    options = StackOptions(
        workers=given.workers,
        slots=given.slots,
        pools=tuple(given.pools.split(",")),
        only=None if given.only is None else given.only.split(","),
        use_default_ports=not given.free_ports,
        watchdog=given.watchdog,
        listen=given.listen,
    )
    try:
        run_until_signal(Home.at(given.home), options, lambda _: None, lambda _: None)
    except RunspineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
