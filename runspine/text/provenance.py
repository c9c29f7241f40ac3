"""What an attempt ran with, as lines for people. Pure."""

from __future__ import annotations

from runspine.wire.v1.facts_pb2 import Provenance


def provenance_lines(found: Provenance) -> list[tuple[str, str]]:
    """A word and its text for each part that is known."""
    packages = f"{found.package_count} packages ({found.packages[:12]})" if found.packages else ""
    memory = f"{found.memory_mib / 1024:.1f} GiB" if found.memory_mib else ""
    hardware = [found.cpu, f"{found.cpus:g} cores" if found.cpus else "", memory, *found.gpus]
    driver = f"driver {found.gpu_driver}" if found.gpu_driver else ""
    switches = ", ".join(f"{name}={value}" for name, value in sorted(found.determinism.items()))
    lines = [
        ("python", ", ".join(filter(None, (found.python, found.python_path, packages)))),
        ("system", ", ".join(filter(None, (found.system, found.machine, found.image)))),
        ("hardware", ", ".join(filter(None, (*hardware, driver)))),
        ("switches", switches),
    ]
    return [(word, text) for word, text in lines if text]
