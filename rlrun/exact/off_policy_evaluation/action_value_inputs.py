"""Network inputs for fitted Q evaluation (encoded observations and actions), and its optimizer (torch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.moments import Moments, merge_named
from rlrun.engine.learner.optimizers import STEPS, Adam
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower, network_spec
from rlrun.engine.nn.observation_leaves import encoded_leaves, observation_leaves
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows, blocks

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.exact.off_policy_evaluation.target_policy import TargetActions


EPSILON = 1e-8

RunNetworks = Callable[[Any], Tensor]
"""Type of a function that runs M networks on B inputs, a tree of [B, 1, ...], with K outputs each, [M, B, K]."""


def plain_model(model: ModelConfig, hiddens: tuple[int, ...]) -> ModelConfig:
    """Settings for a feed-forward network that encodes observations in the same way as a policy's network."""
    return ModelConfig(
        hiddens=hiddens,
        activation="relu",
        observations=model.observations,
        encoders=model.encoders,
        conv=model.conv,
    )


class NormalizedInputs:
    """Network inputs whose numeric parts are normalized by their moments over all recorded rows.

    Args:
        leaves: Tree with the `ObservationLeaf` of each part of an observation.
        gathered: Function that gathers raw arrays for rows [B]: a tree of [B, ...] with at least the parts of `leaves`.
        num_rows: Number of recorded rows.
    """

    def __init__(self, leaves: Any, gathered: Callable[[Rows], Any], num_rows: int) -> None:
        self._filter = ObservationFilter(leaves)
        moments: dict[str, Moments] = {}
        for rows in blocks(np.arange(num_rows)):
            columns = self._filter.columns(gathered(rows))
            merge_named(moments, {name: Moments.of(column, 1) for name, column in columns.items()})
        self._filter.load(moments)

    def __call__(self, arrays: Any) -> Any:
        """Normalizes raw arrays [B, ...], and returns them as tensors [B, 1, ...]."""
        return map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], self._filter(arrays))


class ActionValueInputs(ABC):
    """Prepares network inputs from the rows of recorded episodes, and computes Q and V from the networks' outputs.

    Attributes:
        spec: Architecture of a Q function.
    """

    spec: NetworkSpec

    @abstractmethod
    def q(self, run: RunNetworks, rows: Rows) -> Tensor:
        """Values of the recorded actions in B rows, as estimated by each of M Q functions, [M, B]."""

    @abstractmethod
    def v(self, run: RunNetworks, rows: Rows, sample: int | None = None) -> Tensor:
        """Values of the evaluated policy at the observations in B rows, as estimated by each of M Q functions, [M, B].

        Args:
            run: Function that runs the networks of the M Q functions on their inputs.
            rows: Row indices, [B].
            sample: Index of the one action sample to use at each observation; None for the mean over all samples.
        """


class DiscreteInputs(ActionValueInputs):
    """Inputs of Q functions with one output per Discrete action, for which expectations are exact.

    Args:
        spaces: Observation and action space.
        model: Network settings.
        episodes: The recorded episodes.
        judged: The evaluated policy's action probabilities at the recorded observations.
    """

    def __init__(self, spaces: Spaces, model: ModelConfig, episodes: RecordedEpisodes, judged: TargetActions) -> None:
        assert judged.probabilities is not None
        leaves = encoded_leaves(policy_leaves(*spaces, model, normalize_observations=True))
        space: Any = spaces.action
        self.spec = network_spec(leaves, model, _tower(int(space.n)))
        self._observations = episodes.observations
        self._normalized = NormalizedInputs(leaves, episodes.observations, episodes.num_rows)
        self._actions = torch.as_tensor(episodes.actions.astype(np.int64) - int(space.start))
        self._probabilities = torch.as_tensor(judged.probabilities)

    @override
    def q(self, run: RunNetworks, rows: Rows) -> Tensor:
        outputs = run(self._normalized(self._observations(rows)))
        actions = self._actions[rows].expand(len(outputs), -1)
        return outputs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    @override
    def v(self, run: RunNetworks, rows: Rows, sample: int | None = None) -> Tensor:
        return (run(self._normalized(self._observations(rows))) * self._probabilities[rows]).sum(-1)


class SampledInputs(ActionValueInputs):
    """Inputs of Q functions that take an observation and an action; expectations are means over sampled actions.

    Args:
        spaces: Observation and action space.
        model: Network settings.
        episodes: The recorded episodes.
        judged: Actions that the evaluated policy samples at the recorded observations.
    """

    def __init__(self, spaces: Spaces, model: ModelConfig, episodes: RecordedEpisodes, judged: TargetActions) -> None:
        observed = encoded_leaves(policy_leaves(*spaces, model, normalize_observations=True))
        leaves = (observed, observation_leaves(spaces.action, {}, normalize=True))
        self.spec = network_spec(leaves, model, _tower(1))
        self._episodes, self._sampled = episodes, judged.sampled
        self._normalized = NormalizedInputs(leaves, self._taken, episodes.num_rows)

    @override
    def q(self, run: RunNetworks, rows: Rows) -> Tensor:
        return run(self._normalized(self._taken(rows))).squeeze(-1)

    @override
    def v(self, run: RunNetworks, rows: Rows, sample: int | None = None) -> Tensor:
        observations = self._episodes.observations(rows)
        chosen = self._sampled if sample is None else [self._sampled[sample % len(self._sampled)]]
        actions = [map_tree(lambda leaf: leaf[rows], each) for each in chosen]
        values = [run(self._normalized((observations, each))).squeeze(-1) for each in actions]
        return torch.stack(values).mean(0)

    def _taken(self, rows: Rows) -> Any:
        return self._episodes.observations(rows), self._episodes.acted(rows)


def _tower(outputs: int) -> Tower:
    return Tower((Head("outputs", "q_head", outputs),))


class AnnealedAdam:
    """Adam optimizer for several tensors, with a linearly decaying learning rate.

    Args:
        parameters: The tensors; all must require gradients.
        lr: Learning rate of the first step.
        sgd_steps: Number of steps over which the learning rate decays to 0.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, sgd_steps: int) -> None:
        self._parameters = list(parameters)
        self._lr = lr
        self._sgd_steps = sgd_steps
        self._step = 0
        self._adam = Adam(EPSILON)
        self._states = [
            {part: torch.zeros(()) if part == STEPS else torch.zeros_like(each) for part in self._adam.parts}
            for each in self._parameters
        ]

    def descend(self, loss: Tensor) -> None:
        """Takes an Adam step that decreases a scalar loss; changes the parameters in place."""
        gradients = torch.autograd.grad(loss, self._parameters)
        lr = torch.tensor(self._lr * (1 - self._step / self._sgd_steps))
        with torch.no_grad():
            for parameter, gradient, state in zip(self._parameters, gradients, self._states, strict=True):
                self._adam.step(parameter, gradient, state, lr)
        self._step += 1
