"""Settings of learned dynamics."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import model_validator

from rlrun.config import ConfigModel, NonEmptyText, PositiveInt

OBJECTIVE = "dynamics"
"""Name of the objective that the members of an ensemble minimise."""

FEWEST_TRANSITIONS = 20
"""Fewest transitions that a model is fitted to, so that some are held out."""


class DynamicsConfig(ConfigModel):
    """An ensemble of networks that predict what an env does, and how it is fitted."""

    num_members: PositiveInt = 7
    """Networks in the ensemble."""
    num_elites: PositiveInt = 5
    """Elites: networks that predict, those with the least error on held-out transitions."""
    hiddens: tuple[PositiveInt, ...] = (200, 200, 200, 200)
    """Widths of each network's layers."""
    minibatch_size: PositiveInt = 256
    """Transitions in a minibatch of each network."""
    holdout_ratio: Annotated[float, Ge(0.05), Le(0.5)] = 0.2
    """Share of the transitions that no network ever learns from."""
    patience: PositiveInt = 5
    """Epochs without progress on held-out transitions after which a fit ends. Progress is an error of any network that
    is at least 1 % below its best."""
    max_epochs: PositiveInt = 200
    """Epochs after which a fit ends at the latest."""
    fit_interval: PositiveInt = 250
    """Env steps between two fits, each of which starts from the networks of the one before."""
    terminated: NonEmptyText | None = None
    """Termination rule: the name of a function in `rlrun.algorithms.model_based.rules`, such as
    `never`, or one's own `package.module:function` of observations [N, D], actions [N, ...] and next observations
    [N, D], as the env has them, that returns [N] of bool. Null has the networks predict it."""
    reward: NonEmptyText | None = None
    """Reward function of the same arguments, which returns [N] numbers. Null has the networks predict it."""

    @model_validator(mode="after")
    def _elites_are_members(self) -> DynamicsConfig:
        if self.num_elites > self.num_members:
            raise ValueError(f"num_elites: {self.num_elites} of {self.num_members} members cannot be elites")
        return self
