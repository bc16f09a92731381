"""Settings of an ensemble of critics (Q functions), and of the frequency of actor updates."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rlrun.engine.settings.config import ConfigModel, PositiveInt

ActorObjective = Literal["first", "minimum", "mean"]
"""Value that an actor maximises: the first critic's, the critics' minimum, or their mean."""


class CriticEnsembleSettings(ConfigModel):
    """Mixin for configs of `OffPolicyConfig`: number of critics, and their use in targets and by the actor."""

    num_critics: PositiveInt = 2
    """Number of critics (Q functions), N."""
    num_target_critics: PositiveInt | None = None
    """Number M of target critics whose minimum the targets use, drawn at random for each minibatch (REDQ,
    arXiv:2101.05982, algorithm 1); null for all N."""
    actor_objective: ActorObjective = "minimum"
    """Value of its actions that the actor maximises: that of the `first` critic, the `minimum` of all critics, or their
    `mean`, as in REDQ."""
    policy_delay: PositiveInt = 1
    """Policy delay: number of critic updates per update of the actor, and of a temperature."""

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting determines the shapes of parameters; see `AlgorithmConfig.shapes_parameters`."""
        return path == "num_critics" or super().shapes_parameters(path)  # type: ignore[misc]  # of `AlgorithmConfig`

    @model_validator(mode="after")
    def _draws_among_the_critics(self) -> CriticEnsembleSettings:
        if self.num_target_critics is not None and self.num_target_critics > self.num_critics:
            raise ValueError(
                f"num_target_critics ({self.num_target_critics}) must not exceed num_critics ({self.num_critics})"
            )
        return self
