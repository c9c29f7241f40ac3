"""docs/events.md, from the facts in proto/ and the comments beside them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).parents[1]
PROTO = "runspine/wire/v1/facts.proto"
# The numbers of a stream's facts begin here.
STREAMS = {10: "RUNS", 40: "ATTEMPTS", 60: "ARTIFACTS"}


def compile_facts() -> FileDescriptorProto:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "facts"
        command = [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", "--include_source_info"]
        subprocess.run([*command, f"--descriptor_set_out={out}", PROTO], cwd=ROOT, check=True)
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def events_doc() -> str:
    file = compile_facts()
    comments = {
        tuple(loc.path): " ".join(loc.leading_comments.split()) for loc in file.source_code_info.location
    }
    messages = {message.name: (index, message) for index, message in enumerate(file.message_type)}
    lines = [
        "# Events",
        "",
        "Every fact there is, generated from `proto/runspine/wire/v1/facts.proto` by `make proto`.",
        "A commit holds the facts of one decision; each fact has `at`, microseconds since 1970.",
    ]
    stream = ""
    for field in messages["Fact"][1].field:
        if field.type != FieldDescriptorProto.TYPE_MESSAGE:
            continue
        name = field.type_name.rsplit(".", 1)[-1]
        index, message = messages[name]
        of = STREAMS[max(first for first in STREAMS if first <= field.number)]
        if of != stream:
            stream = of
            lines += ["", f"## On {stream}"]
        lines += ["", f"### {name}", ""]
        if comments.get((4, index)):
            lines += [comments[4, index], ""]
        for number, part in enumerate(message.field):
            note = comments.get((4, index, 2, number), "")
            lines.append(f"- `{part.name}`{': ' + note if note else ''}")
    return "\n".join(lines) + "\n"
