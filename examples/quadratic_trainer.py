"""A trainer whose best parameters are known, to try a sweep with: x = 0.3, kind = good."""

import json
import os
import random
import time

params = json.loads(os.environ.get("RUNSPINE_PARAMS") or "{}")
dice = random.Random(int(os.environ.get("RUNSPINE_SEED", "1")))
x, kind = float(params.get("x", 0.0)), params.get("kind", "good")
seconds = float(params.get("seconds", 2.0))
height = 100 - 200 * (x - 0.3) ** 2 - (0 if kind == "good" else 30)
print(f"x = {x:.3f}, kind = {kind}", flush=True)
for step in range(10, 1001, 10):
    time.sleep(seconds / 100)
    value = height * step / 1000 + dice.gauss(0, 1)
    print(json.dumps({"type": "metric", "name": "score", "value": value, "step": step}), flush=True)
