"""Seeds: one number out of several, the same on every machine and in every process."""

from __future__ import annotations

import hashlib


def mix_seed(*numbers: int) -> int:
    """One 63-bit seed out of several numbers (run seed, step, chunk)."""
    digest = hashlib.sha256(",".join(map(str, numbers)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def number_of(text: str) -> int:
    """A 63-bit number that stands for a text among the numbers of `mix_seed`."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
