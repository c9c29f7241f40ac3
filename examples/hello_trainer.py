"""A trainer that learns nothing and shows the protocol: copy it, keep the `emit` lines, add your training."""

import argparse
import json
import math
import os
import random
import time

TOTAL_STEPS = 20_000


def emit(**what: object) -> None:
    """One line of Runspine's protocol: JSON on stdout, flushed so that it is seen at once."""
    print(json.dumps(what), flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, default=8.0)
parser.add_argument("--seed", type=int, default=int(os.environ.get("RUNSPINE_SEED", "1")))
args = parser.parse_args()

dice = random.Random(args.seed)
emit(type="config", algo="pretend", env_id="Hello-v0", seed=args.seed, args=vars(args))
print(f"hello: training for about {args.seconds:g} s with seed {args.seed}", flush=True)
step = episode = 0
while step < TOTAL_STEPS:
    length = min(dice.randint(150, 250), TOTAL_STEPS - step)
    time.sleep(args.seconds * length / TOTAL_STEPS)
    step, episode = step + length, episode + 1
    skill = 1 - math.exp(-3 * step / TOTAL_STEPS)
    emit(
        type="episode", episode_id=f"e{episode}", steps=length, **{"return": 200 * skill + dice.gauss(0, 10)}
    )
    emit(type="metric", name="losses/value_loss", value=1.5 * (1 - skill) + dice.random() / 10, step=step)
print(f"hello: done after {episode} episodes", flush=True)
