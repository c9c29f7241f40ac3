"""Films one episode in a process of its own: `python -m services.worker.filming.filmer JOB CLIP`.

JOB is JSON: the env, and how an episode began and went, as the SDK's snapshots have it. What the clip is
goes to stdout as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from runspine.sdk.snapshot import Diverged, actions_of, beginning_of, blocks_of, replay
from runspine.video.clip import NoVideo
from runspine.video.film import film, make_env

NICE = 3


def proven(job: dict[str, Any]) -> int:
    """Resets to be made before the one that the episode began with, found by playing it. Raises Diverged."""
    env = make_env(job["env_id"], job["kwargs"])
    try:
        return replay(env, {"env_id": job["env_id"], "episode": job["episode"]})[1] - 1
    finally:
        env.close()


def main() -> None:
    os.nice(NICE)  # whoever evaluates or trains comes first
    job, target = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    # Whatever an env prints goes to stderr: stdout is for the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    began = job["episode"]
    actions = list(actions_of(blocks_of(began["actions"])))
    how, frames = beginning_of(began), job["frames"]
    try:
        resets = proven(job)
        clip = film(job["env_id"], job["kwargs"], how, actions, target, most=frames, resets=resets)
    except (NoVideo, Diverged) as error:
        sys.exit(str(error))
    json.dump(clip.meta(), answer)


if __name__ == "__main__":
    main()
