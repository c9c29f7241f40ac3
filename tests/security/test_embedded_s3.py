"""Another user of the machine at the inner ports of the embedded S3, with the real `weed shell`."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from pathlib import Path

from runspine.embedded import running_stack
from runspine.embedded.binaries import find_binary
from runspine.embedded.s3 import BUCKET
from runspine.embedded.stack import Stack
from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs

NOBODY = 65534
# Long enough for one that is let in, which answers within a second or two.
SHELL_SECONDS = 20.0


def weed_shell(stack: Stack, folder: Path, *commands: str, user: int | None = None) -> str:
    """What `weed shell` prints; it is ended when it does not get in."""
    ports = json.loads(stack.home.ports_file.read_text())
    program = os.open(find_binary("weed"), os.O_RDONLY)
    servers = [f"-{name}=127.0.0.1:{ports[f's3-{name}']}" for name in ("master", "filer")]
    try:
        done = subprocess.run(
            # By descriptor: another user may not reach the folder that it is installed in.
            [f"/proc/self/fd/{program}", "shell", *servers],
            input=("\n".join(commands) + "\n").encode(),
            capture_output=True,
            check=False,
            timeout=SHELL_SECONDS,
            cwd=folder,
            user=user,
            pass_fds=(program,),
            env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]},
        )
    except subprocess.TimeoutExpired as ended:
        return ((ended.stdout or b"") + (ended.stderr or b"")).decode()
    finally:
        os.close(program)
    return (done.stdout + done.stderr).decode()


async def test_no_other_user_lists_or_deletes_objects_through_the_inner_ports(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only={"s3"}) as stack:
        credentials = stack.credentials
        settings = {
            "s3_endpoint": stack.addresses["s3"],
            "s3_access_key": credentials.s3_access_key,
            "s3_secret_key": credentials.s3_secret_key,
        }
        blobs = S3Blobs(ServiceSettings.model_validate(settings))
        await blobs.put("secret", b"of somebody else")
        stranger = NOBODY if os.geteuid() == 0 else None
        commands = (f"fs.ls /buckets/{BUCKET}", "lock", f"fs.rm -rf /buckets/{BUCKET}", "exit")
        printed = await asyncio.to_thread(weed_shell, stack, Path("/"), *commands, user=stranger)
        assert "secret" not in printed
        assert await blobs.get("secret") == b"of somebody else"
        # The owner, who has the certificate, is let in: the shell works, and so does the check above.
        printed = await asyncio.to_thread(weed_shell, stack, stack.home.s3, commands[0], "exit")
        assert "secret" in printed
        key = stack.home.s3 / "tls" / "node.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
