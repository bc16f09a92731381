"""All conversions of RLlib's settings, by the names in the table of foreign names."""

from __future__ import annotations

from collections.abc import Mapping

from rlrun.bridges.translation.rllib_settings import (
    alphazero,
    bandits,
    data,
    dreamer,
    evolution,
    meta,
    networks,
    policy_gradients,
    replay,
    sampling,
    sequences,
    teams,
)
from rlrun.bridges.translation.settings import Conversion

FAMILIES = (
    sampling, networks, policy_gradients, replay, sequences, teams, data, evolution, meta, dreamer, alphazero, bandits,
)  # fmt: skip
"""Modules of conversions."""

CONVERSIONS: Mapping[str, Conversion] = {
    name: function for family in FAMILIES for name, function in family.conversion.items()
}
"""Conversions by name."""
