"""Process that films one episode: `python -m runspine.trainers.filming.filmer JOB CLIP`.

JOB is JSON: the env, and an episode as in the SDK's snapshots. The clip's metadata goes to stdout as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from runspine.sdk.snapshot import DivergedError, actions_of, blocks_of, replay, start_of
from runspine.video.clip import VideoError
from runspine.video.film import film, make_env

NICE = 3


def verified_resets(job: dict[str, Any]) -> int:
    """Number of resets before the one that the episode began with, found by replaying it.

    Raises DivergedError.
    """
    env = make_env(job["env_id"], job["kwargs"])
    try:
        return replay(env, {"env_id": job["env_id"], "episode": job["episode"]})[1] - 1
    finally:
        env.close()


def main() -> None:
    os.nice(NICE)  # training and evaluation come first
    job, target = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    # What an env prints goes to stderr: stdout is for the result.
    answer, sys.stdout = sys.stdout, sys.stderr
    began = job["episode"]
    actions = list(actions_of(blocks_of(began["actions"])))
    how, frames = start_of(began), job["frames"]
    try:
        resets = verified_resets(job)
        clip = film(job["env_id"], job["kwargs"], how, actions, target, limit=frames, resets=resets)
    except (VideoError, DivergedError) as error:
        sys.exit(str(error))
    json.dump(clip.meta(), answer)


if __name__ == "__main__":
    main()
