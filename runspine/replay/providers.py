"""Packages of envs, by class or by id. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Prefix of the class's module, and what to install for it.
BY_MODULE = {
    "gymnasium.envs.box2d": "gymnasium[box2d]",
    "gymnasium.envs.mujoco": "gymnasium[mujoco]",
    "gymnasium.envs.classic_control": "gymnasium[classic-control]",
    "gymnasium.envs.toy_text": "gymnasium[toy-text]",
    "ale_py": "ale-py",
    "gymnasium_robotics": "gymnasium-robotics",
    "highway_env": "highway-env",
    "panda_gym": "panda-gym",
    "pettingzoo.classic": "pettingzoo[classic]",
    "pettingzoo.butterfly": "pettingzoo[butterfly]",
    "pettingzoo.sisl": "pettingzoo[sisl]",
    "pettingzoo": "pettingzoo",
    "mpe2": "mpe2",
}
# For records without the class: the id, the module that registers it, what to install.
BY_ID = (
    (re.compile(r"(MiniGrid|BabyAI)-"), "minigrid", "minigrid"),
    (re.compile(r"ALE/|.*(NoFrameskip|Deterministic)-v[04]$"), "ale_py", "ale-py"),
    (re.compile(r"MiniWorld-"), "miniworld", "miniworld"),
    (re.compile(r"(Fetch|Hand|AntMaze|PointMaze|Adroit|Franka)"), "gymnasium_robotics", "gymnasium-robotics"),
    (re.compile(r"Panda(Reach|Push|Slide|Pick|Stack|Flip)"), "panda_gym", "panda-gym"),
    (re.compile(r"(LunarLander|BipedalWalker|CarRacing)"), "", "gymnasium[box2d]"),
    (
        re.compile(r"(Ant|HalfCheetah|Hopper|Humanoid|Inverted|Pusher|Reacher|Swimmer|Walker2d)"),
        "",
        "gymnasium[mujoco]",
    ),
)
# Modules whose import fails when a package is missing, and what to install for them.
BY_IMPORT = {
    "Box2D": "gymnasium[box2d]",
    "mujoco": "gymnasium[mujoco]",
    "imageio": "gymnasium[mujoco]",
    "pygame": "gymnasium[classic-control]",
    "ale_py": "ale-py",
    "cv2": "opencv-python-headless",
    "gymnasium": "runspine[replay]",
    "av": "runspine[replay]",
    "PIL": "runspine[replay]",
}


def module_for(env_id: str, entry_point: str) -> str:
    """The module whose import registers the env; empty when Gymnasium registers it."""
    module = entry_point.partition(":")[0]
    if module.partition(".")[0] in ("gymnasium", "builtins"):
        module = ""
    if not module:
        module = next((module for pattern, module, _ in BY_ID if pattern.match(env_id)), "")
    return module


def package_for(env_id: str, entry_point: str, versions: Mapping[str, str]) -> str:
    """What to install for the env with pip; empty when unknown.

    A module's name counts as a package only where the recording found a package of that name: any other
    package of that name on an index could be malicious.
    """
    module = entry_point.partition(":")[0]
    for prefix, package in BY_MODULE.items():
        if module == prefix or module.startswith(f"{prefix}."):
            return package
    found = next((package for pattern, _, package in BY_ID if pattern.match(env_id)), "")
    root = module.partition(".")[0]
    return found or (root if root in versions else "")
