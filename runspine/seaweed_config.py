"""Write SeaweedFS's identities and inner keys for its container: `python -m runspine.seaweed_config FOLDER`.

They come from the same variables that the services get theirs from, so there is no second copy to keep.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from runspine.bootstrap import service_keys
from runspine.bucket_rights import Key, seaweed_identities

# Without these, whoever reaches the server's inner ports is past the S3 keys.
SECTIONS = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")


def write_config(folder: Path, environment: Mapping[str, str]) -> None:
    names = ("RUNSPINE_S3_ADMIN_ACCESS_KEY", "RUNSPINE_S3_ADMIN_SECRET_KEY", "RUNSPINE_S3_SIGNING_KEY")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not set; `runspine secrets` makes them")
    access, secret, signing = (environment[name] for name in names)
    bucket = environment.get("RUNSPINE_S3_BUCKET") or "runspine"
    identities = seaweed_identities(bucket, service_keys(environment), Key(access, secret))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s3.json").write_text(json.dumps(identities, indent=1))
    (folder / "security.toml").write_text("".join(f'[{s}]\nkey = "{signing}"\n' for s in SECTIONS))


if __name__ == "__main__":
    write_config(Path(sys.argv[1]), os.environ)
