"""Generated files must match their sources. `python -m tests.drift [--write]`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kit.paths import ROOT

WIRE = Path("runspine/wire/v1")


def generate_wire(target: Path) -> None:
    protos = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "proto" / WIRE).glob("*.proto"))
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", *outputs, *protos]
    subprocess.run(command, cwd=ROOT, check=True)


def wire_drift() -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        generate_wire(Path(scratch))
        fresh = {p.name: p.read_bytes() for p in (Path(scratch) / WIRE).iterdir()}
    stored = {p.name: p.read_bytes() for p in (ROOT / WIRE).glob("*_pb2*")}
    return sorted(
        f"{WIRE / name} is not what proto/ gives"
        for name in fresh.keys() | stored.keys()
        if fresh.get(name) != stored.get(name)
    )


def main() -> int:
    if "--write" in sys.argv:
        generate_wire(ROOT)
    # Code may use what proto/ has just brought.
    from tests.drift.page_client import client_drift
    from tests.drift.texts import generated

    if "--write" in sys.argv:
        for path, text in generated().items():
            path.write_text(text)
        return 0
    drift = wire_drift()
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            drift.append(f"{path.relative_to(ROOT)} is not what its source gives")
    drift += client_drift()
    print("\n".join([*drift, "run `make proto`"] if drift else ["generated files are up to date"]))
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
