"""Descriptions of the levels of effort. A model's ``ModelOffer`` contains the levels that it supports. Pure."""

from __future__ import annotations

from typing import Final

from drawbridge.agents.base import EffortOffer

OFFERS: Final = (
    EffortOffer("low", "Answers fast, with little thinking."),
    EffortOffer("medium", "Balances speed and care."),
    EffortOffer("high", "Thinks longer. For hard tasks."),
    EffortOffer("xhigh", "Thinks much longer."),
    EffortOffer("max", "Thinks for as long as it needs. Slow and expensive."),
)
"""The levels that agents are known to have. Clients show other levels without a description."""
