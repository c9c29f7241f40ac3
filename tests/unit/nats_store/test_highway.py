"""HighwayHash-64 by the vectors of its specification, and for many messages at once."""

from __future__ import annotations

import random

import numpy as np

from runspine.nats_store.highway import hash_of, hashes_of, key_of

# Of the bytes 0, 1, 2 …, 0 to 4 of them, under the key 00 01 … 1f.
VECTORS = (
    0x907A56DE22C26E53,
    0x7EAB43AAC7CDDD78,
    0xB8D0569AB0B53D62,
    0x5C6BEFAB8A463D80,
    0xF205A46893007EDA,
)


def test_the_hash_is_that_of_the_specification() -> None:
    key = np.frombuffer(bytes(range(32)), dtype="<u8").astype(np.uint64)
    assert [hash_of(key, bytes(range(size))) for size in range(len(VECTORS))] == list(VECTORS)


def test_messages_of_every_length_have_the_same_hash_together_and_alone() -> None:
    chance = random.Random(1)
    messages = [chance.randbytes(size) for size in range(131)]
    chance.shuffle(messages)
    keys = np.stack([key_of(f"block-{number % 3}") for number in range(len(messages))])
    together = hashes_of(keys, messages)
    alone = [hash_of(key, message) for key, message in zip(keys, messages, strict=True)]
    assert together.tolist() == alone
    assert len(set(alone)) == len(alone)
