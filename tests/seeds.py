"""The seed of the tests that play at random."""

from __future__ import annotations

import os
from random import SystemRandom

VARIABLE = "DRAWBRIDGE_TEST_SEED"


def seed() -> int:
    """The seed in ``VARIABLE``, which repeats what a failure reported and which CI sets; otherwise a new one."""
    return int(os.environ.get(VARIABLE) or SystemRandom().randrange(2**32))
