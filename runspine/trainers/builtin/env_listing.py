"""`python -m runspine.trainers.builtin.env_listing` prints every env id that Gymnasium knows, as JSON.

Plugins that packages have registered are loaded by importing Gymnasium; it imports no torch.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    # What a plugin prints goes to stderr: stdout is for the result.
    answer, sys.stdout = sys.stdout, sys.stderr
    import gymnasium as gym

    json.dump(sorted(gym.registry), answer)


if __name__ == "__main__":
    main()
