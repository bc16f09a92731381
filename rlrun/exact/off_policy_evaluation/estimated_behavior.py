"""Behavior policy estimated from recorded actions by behavior cloning, for data without log-probabilities (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.data.action_masks import ACTION_MASK, mask_of
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.seeding import child_seed, generator
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_module import NetworkModule, initialize, seeded
from rlrun.engine.nn.network_spec import Tower, network_spec
from rlrun.engine.nn.observation_leaves import encoded_leaves
from rlrun.engine.policy.action_masks import masked_tensor, policy_leaves
from rlrun.engine.policy.action_spaces.action_space import Actions
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.log_probs_in_env import log_probs_in_env
from rlrun.engine.policy.make_decoder import policy_heads
from rlrun.exact.off_policy_evaluation.action_value_inputs import AnnealedAdam, NormalizedInputs
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows, blocks

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces

SGD_STEPS = 2_000
MINIBATCH_SIZE = 256
LEARNING_RATE = 1e-3


class EstimatedBehavior:
    """Estimated behavior policy, which maximizes the likelihood of the recorded actions.

    Importance ratios with probabilities estimated on the same episodes are consistent, and often have less variance
    than those with the true probabilities.

    Args:
        spaces: Observation and action space.
        model: Network settings.
        episodes: The recorded episodes.
        seed: Seed of the initial parameters and minibatches.

    Source:
        Hanna, Niekum and Stone, arXiv:1806.01347.
    """

    def __init__(self, spaces: Spaces, model: ModelConfig, episodes: RecordedEpisodes, seed: int) -> None:
        self._episodes = episodes
        self._space = make_action_space(spaces.action)
        leaves = encoded_leaves(policy_leaves(*spaces, model, normalize_observations=True))
        own = child_seed(seed, "estimated behavior")
        with seeded(own):
            self._module = NetworkModule(network_spec(leaves, model, Tower(policy_heads(self._space, model))))
        initialize([self._module], self._module, orthogonal=True, seed=own)
        self._normalized = NormalizedInputs(leaves, episodes.observations, episodes.num_rows)
        self._fit(generator(seed, "estimated behavior"))

    def log_probs(self) -> Doubles:
        """Log-probability of the action recorded in each of N rows, [N]; 0 for final observations.

        For continuous actions these are log-densities in the env's units.
        """
        found = np.zeros(self._episodes.num_rows)
        with torch.inference_mode():
            for rows in blocks(np.flatnonzero(self._episodes.valid)):
                found[rows] = log_probs_in_env(self._space, self._outputs(rows).numpy(), self._taken(rows))
        return found

    def _fit(self, draws: np.random.Generator) -> None:
        steps = np.flatnonzero(self._episodes.valid)
        optimizer = AnnealedAdam(self._module.parameters(), LEARNING_RATE, SGD_STEPS)
        for _ in range(SGD_STEPS):
            rows = steps[draws.integers(len(steps), size=MINIBATCH_SIZE)]
            distribution = self._space.distribution(self._outputs(rows))
            optimizer.descend(-distribution.log_prob(torch.as_tensor(self._taken(rows))).mean())

    def _outputs(self, rows: Rows) -> Tensor:
        """Masked parameters of the action distributions, [B, K]."""
        observations = self._episodes.observations(rows)
        heads, _ = self._module({"obs": self._normalized(observations)})
        outputs: Tensor = heads["outputs"].squeeze(1)
        mask = mask_of(observations)
        return outputs if mask is None else masked_tensor(outputs, {ACTION_MASK: torch.as_tensor(mask)})

    def _taken(self, rows: Rows) -> Actions:
        """Recorded actions in the policy's own units, [B, *action_shape]."""
        return self._space.from_env(self._episodes.acted(rows))
