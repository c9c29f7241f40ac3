"""docs/events.md, from the facts in proto/ and their comments."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from tests.drift.protos import comments_of, compile_protos

# The numbers of a stream's facts begin here.
STREAMS = {10: "RUNS", 40: "ATTEMPTS", 60: "ARTIFACTS", 95: "AUDIT", 100: "NOTICES"}


def events_doc() -> str:
    file = compile_protos()["facts"]
    comments = comments_of(file)
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
