"""The contracts in proto/ with their comments, for what is generated from them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tests.kit.paths import ROOT

FOLDER = "runspine/wire/v1"

Comments = dict[tuple[int, ...], str]


def compile_protos() -> dict[str, FileDescriptorProto]:
    """Every contract, by the name of its file without the ending."""
    names = sorted(path.name for path in (ROOT / "proto" / FOLDER).glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "protos"
        command = [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", "--include_source_info"]
        sources = [f"{FOLDER}/{name}" for name in names]
        subprocess.run([*command, f"--descriptor_set_out={out}", *sources], cwd=ROOT, check=True)
        files = FileDescriptorSet.FromString(out.read_bytes()).file
    return {Path(file.name).stem: file for file in sorted(files, key=lambda file: file.name)}


def comments_of(file: FileDescriptorProto) -> Comments:
    """The comment before each thing, by protobuf's path to it; nothing in it is markup."""
    return {
        tuple(place.path): " ".join(place.leading_comments.split())
        .replace("|", "&#124;")
        .replace("<", "&lt;")
        for place in file.source_code_info.location
    }
