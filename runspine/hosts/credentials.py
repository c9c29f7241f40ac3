"""What a host gets to run a worker with. The one place that knows how credentials of workers are made."""

from __future__ import annotations

from runspine.clock import now_micros
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.s3 import BUCKET
from runspine.eventlog.signing import SigningKey, new_signing_key


def worker_variables(home: Home, host: str) -> dict[str, str]:
    """Variables of a worker on this host, except for addresses: those are its agent's.

    The signing key is the host's own: it signs no commit of another worker. The users of NATS and S3 are
    those of all workers; another machine reaches them through the gateway alone, which knows each host.
    """
    known = load_credentials(home)
    root = SigningKey.parse(known.root_key)
    return {
        "RUNSPINE_NATS_USER": "worker",
        "RUNSPINE_NATS_PASSWORD": known.nats["worker"],
        "RUNSPINE_S3_ACCESS_KEY": known.s3_keys["worker"].access,
        "RUNSPINE_S3_SECRET_KEY": known.s3_keys["worker"].secret,
        "RUNSPINE_S3_BUCKET": BUCKET,
        "RUNSPINE_LOG_ROOT": known.log_root,
        "RUNSPINE_SIGNING_KEY": new_signing_key(root, "worker", now_micros(), worker_id=host),
    }
