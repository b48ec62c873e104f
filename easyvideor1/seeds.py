"""Seeds: one number out of several, the same on every machine and in every process."""

from __future__ import annotations

import hashlib


def mix_seed(*numbers: int) -> int:
    """One 63-bit seed out of several numbers (run seed, step, chunk)."""
    digest = hashlib.sha256(",".join(map(str, numbers)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
