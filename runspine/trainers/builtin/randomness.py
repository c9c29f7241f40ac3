"""All random generators of a training, seeded and saved together."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from runspine.trainers.builtin.packing import pack, unpack


class Randomness:
    """`numpy` is the algorithm's generator; the global ones are saved for torch and for envs."""

    def __init__(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        self.numpy = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
        version, words, spare = random.getstate()
        return {
            "own": self.numpy.bit_generator.state,
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "numpy": [kind, pack(np.asarray(keys)), position, has_gauss, gauss],
            "python": [version, list(words), spare],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.numpy.bit_generator.state = state["own"]
        torch.set_rng_state(state["torch"].cpu())
        if state["cuda"] and torch.cuda.device_count() == len(state["cuda"]):
            torch.cuda.set_rng_state_all([one.cpu() for one in state["cuda"]])
        kind, keys, position, has_gauss, gauss = state["numpy"]
        np.random.set_state((kind, unpack(keys), position, has_gauss, gauss))
        version, words, spare = state["python"]
        random.setstate((version, tuple(words), spare))
