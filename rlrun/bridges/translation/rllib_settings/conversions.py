"""All functions that convert RLlib's settings, by the names that `foreign_names.yaml` uses for them."""

from __future__ import annotations

from collections.abc import Mapping

from rlrun.bridges.translation.foreign_settings import Conversion
from rlrun.bridges.translation.rllib_settings import (
    data,
    networks,
    policy_gradients,
    replay,
    sampling,
    single_algorithms,
)

FAMILIES = (sampling, networks, policy_gradients, replay, data, single_algorithms)
"""Modules of conversions."""

CONVERSIONS: Mapping[str, Conversion] = {
    name: function for family in FAMILIES for name, function in family.conversion.items()
}
"""Conversions by name."""
