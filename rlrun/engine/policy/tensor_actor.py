"""Acting side of a policy for envs of tensors: runs the policy's torch modules for B env slots on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.policy.decoder import policy_outputs
from rlrun.engine.policy.observation_filter import CLIP, EPSILON, ObservationFilter
from rlrun.engine.policy.tensor_actions import tensor_actions
from rlrun.engine.policy.weights import Weights


class Acted(NamedTuple):
    """Result of a policy's forward pass in B env slots.

    Attributes:
        actions: Actions in the policy's own representation, [B, ...].
        log_probs: Log-probabilities of the actions, [B].
        values: State values by column name, each [B]; empty for a policy without a critic.
        state: Recurrent state after the step, [B, S]; None without a core.
    """

    actions: Tensor
    log_probs: Tensor
    values: Mapping[str, Tensor]
    state: Tensor | None


class TensorActor:
    """Acting side of a policy for B env slots on a device; runs torch modules without waiting for the device.

    Args:
        policy: The policy, an actor-critic or an actor.
        parameters: The learner's flat vector of the policy's parameters, [P]; updates modify it in place.

    Raises:
        UsageError: The policy acts on the host, although its algorithm's `policy_family` acts on a device.

    Attributes:
        space: Action space on the device.
        num_noise: Number of random numbers needed to sample one action.
        state_size: Size of the recurrent state of an env slot; 0 without a core.
        weights_version: Version of the loaded weights, -1 before the first.
    """

    def __init__(self, policy: Any, parameters: Tensor) -> None:
        if not policy.acts_on_device:
            raise UsageError(f"a {type(policy).__name__} does not work with an env of tensors: it acts on the host")
        device = parameters.device
        self.policy = policy
        self.space = tensor_actions(policy.action_space, device)
        self.num_noise: int = policy.action_space.num_noise
        module = policy.network.module
        self.state_size = module.spec.state_size if isinstance(module, NetworkModule) else 0
        self.weights_version = -1
        self._device = device
        self._views = policy.parameters.views(parameters)
        filtered = ObservationFilter(policy.leaves, is_on=_normalizes(policy))
        self._names = filtered.names
        self._scales: dict[str, Tensor] = {}  # mean, and 1 / standard deviation

    def load(self, weights: Weights) -> None:
        """Loads new observation statistics; parameters are the learner's own, and recurrent state is kept."""
        for name in self.normalized_names:
            if name not in weights.filters:
                continue
            moments = weights.filters[name]
            numbers = np.stack((moments.mean, 1 / np.sqrt(moments.variance + EPSILON))).astype(np.float32)
            if name not in self._scales:
                self._scales[name] = torch.empty(numbers.shape, device=self._device)
            self._scales[name].copy_(torch.from_numpy(numbers))  # in place: CUDA graphs read them
        self.weights_version = weights.version

    @property
    def known_statistics(self) -> tuple[str, ...]:
        """Names of the running statistics that have been loaded; only these normalize observations."""
        return (*self._scales,)

    @property
    def normalized_names(self) -> list[str]:
        """Names of the running statistics of observations."""
        return [name for _, name in named_leaves(self._names) if name]

    def filtered(self, observations: Any) -> Any:
        """Normalizes a tree of raw observations with any leading dimensions, as `ObservationFilter` does."""
        return map_tree(self._normalized, self._names, observations) if self.normalized_names else observations

    def _normalized(self, name: str, column: Tensor) -> Tensor:
        if not name:
            return column
        if name not in self._scales:
            return column.float()
        mean, scale = self._scales[name].unbind()
        return ((column - mean) * scale).clamp_(-CLIP, CLIP).float()

    def moments(self, observations: Any) -> dict[str, Tensor]:
        """Returns mean and sum of squared deviations, [2, ...], of a fragment's raw observations [T, B, ...], by name.

        The results are on the device; `host_moments` converts them to `Moments` of T * B samples.
        """
        found: dict[str, Tensor] = {}

        def measure(name: str, column: Tensor) -> None:
            if name:
                flat = column.flatten(0, 1).double()
                mean = flat.mean(0)
                found[name] = torch.stack((mean, (flat - mean).square().sum(0)))

        map_tree(measure, self._names, observations)
        return found

    def act(self, observations: Any, noise: Tensor, state: Tensor | None, starts: Tensor) -> Acted:
        """Samples the actions of one step.

        Args:
            observations: Normalized observations, a tree of [B, ...].
            noise: Random numbers, [B, num_noise].
            state: Recurrent state before the step, [B, S]; None without a core.
            starts: Whether an episode begins with the step in each slot, bool [B].
        """
        heads, after = self._run(observations, state, starts)
        outputs = policy_outputs(None, self._views, heads, {"obs": map_tree(lambda leaf: leaf[:, None], observations)})
        outputs = outputs[:, 0]
        actions = self.space.sample(outputs, noise)
        log_probs = self.policy.action_space.distribution(outputs).log_prob(actions)
        return Acted(actions, log_probs, self._values(heads), after)

    def values(self, observations: Any, state: Tensor | None, starts: Tensor) -> dict[str, Tensor]:
        """Returns the state values [N] of N observations, by column name; see `act`."""
        return self._values(self._run(observations, state, starts)[0])

    def _run(self, observations: Any, state: Tensor | None, starts: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        seen = map_tree(lambda leaf: leaf[:, None], observations)
        heads, after = self.policy.network(
            self._views, {"obs": seen}, state, None if state is None else starts[:, None]
        )
        return heads, after

    def _values(self, heads: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"values": heads["value"][:, 0, 0]} if "value" in heads else {}


def host_moments(count: int, mean_and_squares: np.ndarray[Any, np.dtype[np.float64]]) -> Moments:
    """Returns the moments of `count` samples from an entry of `TensorActor.moments`, copied to the host."""
    return Moments(float(count), mean_and_squares[0].copy(), mean_and_squares[1].copy())


def _normalizes(policy: Any) -> bool:
    return any(leaf.is_normalized for leaf in leaves(policy.leaves))
