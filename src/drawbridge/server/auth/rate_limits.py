"""How often something may be done: token buckets in a table of bounded size. Pure; times are seconds of any clock."""

from __future__ import annotations

import ipaddress
from typing import Final

from msgspec import Struct

TABLE: Final = 10_000
"""Keys that are known at once: about 2 MB. Beyond that all unknown ones share a bucket: nobody can crowd others out."""

SHARED: Final = ""

SWEEP_SECONDS: Final = 1.0
"""Between two looks through a full table."""


class _Bucket(Struct):
    tokens: float
    at: float
    told: bool = False


class Refused(Struct, frozen=True):
    """``seconds``: until it may be done again. ``first``: it was not refused to this key just before."""

    seconds: float
    first: bool


class Buckets:
    """Each key may do a thing ``burst`` times at once, and ``per_second`` times in the long run."""

    def __init__(self, burst: float, per_second: float, table: int = TABLE) -> None:
        self._burst = float(burst)
        self._rate = per_second
        self._table = table
        self._buckets: dict[str, _Bucket] = {}
        self._swept = float("-inf")

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, now: float) -> Refused | None:
        """None: go ahead, it is counted."""
        refused = self.look(key, now)
        if refused is None:
            self._bucket(key, now).tokens -= 1
        return refused

    def look(self, key: str, now: float) -> Refused | None:
        """What ``take`` would say, counting nothing."""
        bucket = self._bucket(key, now)
        if bucket.tokens >= 1:
            bucket.told = False
            return None
        first, bucket.told = not bucket.told, True
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
        """Who has not come for so long that the bucket is full again is like a stranger."""
        self._swept = now
        full = [key for key, bucket in self._buckets.items() if self._filled(bucket, now) >= self._burst]
        for key in full:
            del self._buckets[key]


def place(address: str) -> str:
    """Who is counted as one: an IPv4 address, or the /64 that one IPv6 peer has all of."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
