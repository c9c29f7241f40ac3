"""Write the identities and signing keys of SeaweedFS: `python -m runspine.service.seaweed_config FOLDER`.

They come from the variables that the services read theirs from, so that there is one copy.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from runspine.service.bootstrap import service_keys
from runspine.storage.bucket_rights import S3Key, seaweed_identities

# Without these, a client of the server's inner ports needs no S3 key.
SECTIONS = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")


def write_config(folder: Path, environment: Mapping[str, str]) -> None:
    """Write s3.json and security.toml; exits naming variables that are not set."""
    names = ("RUNSPINE_S3_ADMIN_ACCESS_KEY", "RUNSPINE_S3_ADMIN_SECRET_KEY", "RUNSPINE_S3_SIGNING_KEY")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not set; `runspine secrets` makes them")
    access, secret, signing = (environment[name] for name in names)
    bucket = environment.get("RUNSPINE_S3_BUCKET") or "runspine"
    identities = seaweed_identities(bucket, service_keys(environment), S3Key(access, secret))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s3.json").write_text(json.dumps(identities, indent=1))
    (folder / "security.toml").write_text("".join(f'[{s}]\nkey = "{signing}"\n' for s in SECTIONS))


if __name__ == "__main__":
    write_config(Path(sys.argv[1]), os.environ)
