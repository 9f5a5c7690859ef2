"""Rate limiters: token buckets in a table of bounded size. Pure. Times are in seconds, from any clock."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

TABLE: Final = 10_000
"""The maximum number of keys in the table: about 2 MB. Beyond that, all unknown keys share a bucket, so that no key can
displace others.
"""

SHARED: Final = ""

SWEEP_SECONDS: Final = 1.0
"""The minimum number of seconds between two cleanups of a full table."""


class _Bucket(Struct):
    tokens: float
    at: float
    reported: bool = False


class Refused(Struct, frozen=True):
    """A refused attempt. ``seconds``: the time until the key may try again. ``first``: whether this is the key's first
    refusal in a row."""

    seconds: float
    first: bool


class Buckets:
    """A table of token buckets. Each key is allowed ``burst`` attempts without a pause, and ``per_second`` attempts per
    second in the long run."""

    def __init__(self, burst: float, per_second: float, table: int = TABLE) -> None:
        self._burst = float(burst)
        self._rate = per_second
        self._table = table
        self._buckets: dict[str, _Bucket] = {}
        self._swept = float("-inf")

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, key: str, now: float) -> Refused | None:
        """Returns None and counts the attempt if it is allowed. Otherwise returns the refusal."""
        refused = self.peek(key, now)
        if refused is None:
            self._bucket(key, now).tokens -= 1
        return refused

    def peek(self, key: str, now: float) -> Refused | None:
        """Returns what ``admit`` would, without counting an attempt. A refusal from here also counts as the first one
        in a row, so ``first`` is False in the refusals that follow."""
        bucket = self._bucket(key, now)
        if bucket.tokens >= 1:
            bucket.reported = False
            return None
        first, bucket.reported = not bucket.reported, True
        return Refused((1 - bucket.tokens) / self._rate, first)

    def _bucket(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._table and now - self._swept >= SWEEP_SECONDS:
                self._forget(now)
            if len(self._buckets) >= self._table:
                key = SHARED
            bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        bucket.tokens = self._filled(bucket, now)
        bucket.at = now
        return bucket

    def _filled(self, bucket: _Bucket, now: float) -> float:
        return min(self._burst, bucket.tokens + max(0.0, now - bucket.at) * self._rate)

    def _forget(self, now: float) -> None:
        """Removes keys with a bucket that is full again, because they are treated like unknown keys."""
        self._swept = now
        full = [key for key, bucket in self._buckets.items() if self._filled(bucket, now) >= self._burst]
        for key in full:
            del self._buckets[key]
