"""Forward passes of critics (Q functions), an actor and their target networks, for losses (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.algorithms.settings.off_policy import ActorObjective, CriticEnsembleSettings
from rlrun.engine.data.action_masks import ACTION_MASK, mask_of
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.sequence_rows import following_steps
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import KEPT_UNITS
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import masked_tensor

ACTOR = "actor."
CRITICS = "critics."

DRAWN_CRITICS = "drawn_critics"
"""Minibatch column: 1 for each critic drawn for the targets of the minibatch, 0 for the others, [S, L, C]."""


@dataclass(frozen=True)
class ObservationSequences:
    """Sequences of observations for recurrent networks with burn-in, and the steps whose outputs a loss uses.

    Attributes:
        obs: Tree of observations, [S, burn_in + R, ...], with R observations after the burn-in.
        episode_starts: Mask of the first observations of episodes, [S, burn_in + R].
        state: The actor's recurrent state before the first observations, [S, state_size].
        burn_in: Length of the burn-in: initial observations that update the recurrent states without gradient.
        steps: Indices, counted from the end of the burn-in, of the steps whose outputs a loss uses, [S, L].
    """

    obs: Any
    episode_starts: Tensor
    state: Tensor
    burn_in: int
    steps: Tensor


@dataclass(frozen=True)
class ActorQNetworks:
    """Critics, other networks and target networks, as losses use them: evaluated with given parameters.

    Attributes:
        critics: The C critics, as functions that take their parameters as input.
        others: The other networks by name, such as `actor`, as functions that take their parameters as input.
        views: Online parameters by name.
        target_views: Parameters of the target networks by name.
        burn_in: Length of the burn-in of recurrent networks; None for feed-forward networks.
        kept: Dropout factors of the critics' units, followed by those of the target critics' units, [S, L, 2 C W],
            with W units per critic; None for no dropout.
    """

    critics: tuple[TorchNetwork, ...]
    others: Mapping[str, TorchNetwork]
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    burn_in: int | None = None
    kept: Tensor | None = None

    def present(self, batch: SampleBatch) -> Any:
        """Observations s_t of a minibatch: a tree [rows, steps, ...], or `ObservationSequences` if recurrent."""
        if self.burn_in is None:
            return batch["obs"]
        return self._sequences(batch, torch.zeros_like(batch["steps"]))

    def following(self, batch: SampleBatch) -> Any:
        """Observations s_(t+n) from which the n-step returns of a minibatch's steps [rows, steps] are bootstrapped."""
        return batch["next_obs"] if self.burn_in is None else self._sequences(batch, batch["steps"])

    def _sequences(self, batch: SampleBatch, ahead: Tensor) -> ObservationSequences:
        assert self.burn_in is not None
        steps = following_steps(ahead)
        return ObservationSequences(batch["obs"], batch["episode_starts"], batch["state"], self.burn_in, steps)

    def critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """K outputs of each of C critics, [C, S, L, K], for inputs of S sequences of L steps."""
        return self._of_critics(self.views, observations, actions, self._kept(0))

    def target_critic_outputs(self, observations: Any, actions: Tensor | None = None) -> Tensor:
        """K outputs of each of C target critics, [C, S, L, K], for inputs of S sequences of L steps."""
        return self._of_critics(self.target_views, observations, actions, self._kept(1))

    def _of_critics(
        self,
        views: Mapping[str, Tensor],
        observations: Any,
        actions: Tensor | None,
        kept: Sequence[Tensor | None],
    ) -> Tensor:
        each = zip(self.critics, kept, strict=True)
        return torch.stack([run(critic, views, observations, actions, kept=own) for critic, own in each])

    def _kept(self, half: int) -> Sequence[Tensor | None]:
        if self.kept is None:
            return [None] * len(self.critics)
        return self.kept.chunk(2, -1)[half].chunk(len(self.critics), -1)

    def values(self, observations: Any, actions: Tensor) -> Tensor:
        """Q values [C, S, L] of the C critics for the observations and actions of S sequences of L steps."""
        return self.critic_outputs(observations, actions).squeeze(-1)

    def target_values(self, observations: Any, actions: Tensor) -> Tensor:
        """Q values [C, S, L] of the C target critics for the observations and actions of S sequences of L steps."""
        return self.target_critic_outputs(observations, actions).squeeze(-1)

    def joint_values(
        self, views: Mapping[str, Tensor], present: tuple[Any, Tensor], following: tuple[Any, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Q values [critics, rows, steps] of recorded and of next actions, computed in one pass over both.

        Recorded and next actions have separate dropout factors; next actions use the target critics' factors.

        Args:
            views: Parameters of the critics by name: the online or the target ones.
            present: Observations [S, L, ...] and recorded actions [S, L, D].
            following: Next observations and actions, of the same shapes.
        """
        observations, actions = map_tree(lambda *halves: torch.cat(halves), present, following)
        kept = [
            None if own is None else torch.cat([own, ahead])
            for own, ahead in zip(*map(self._kept, (0, 1)), strict=True)
        ]
        values, ahead = self._of_critics(views, observations, actions, kept).squeeze(-1).chunk(2, 1)
        return values, ahead

    def actor_values(
        self,
        objective: ActorObjective,
        observations: Any,
        actions: Tensor | None = None,
        *,
        mean_of: Callable[[Tensor], Tensor] = lambda outputs: outputs,
    ) -> Tensor:
        """Values that the actor maximizes: the first critic's, or the minimum or mean over all critics.

        Args:
            objective: Rule that combines the critics' values.
            observations: Observations, [S, L, ...].
            actions: Actions, [S, L, D]; None for critics Q(s, .).
            mean_of: Function from a critic's outputs [..., S, L, K] to values; by default the outputs are the values.
        """
        if objective == "first":
            return mean_of(run(self.critics[0], self.views, observations, actions, kept=self._kept(0)[0]))
        values = mean_of(self.critic_outputs(observations, actions))
        return values.mean(0) if objective == "mean" else values.amin(0)

    def target_minimum(self, values: Tensor, batch: SampleBatch) -> Tensor:
        """Minimum of target values [critics, rows, steps, ...] over all critics, or over a random subset (REDQ)."""
        return self.drawn(values, batch).amin(0)

    def drawn(self, values: Tensor, batch: SampleBatch) -> Tensor:
        """Target values [critics, rows, steps, ...], with infinity for the critics left out (REDQ)."""
        if DRAWN_CRITICS not in batch:
            return values
        left_out = batch[DRAWN_CRITICS].movedim(-1, 0) == 0
        return values.masked_fill(left_out.view(*left_out.shape, *[1] * (values.ndim - 3)), torch.inf)

    def actor_outputs(self, observations: Any) -> Tensor:
        """Actor outputs [rows, steps, num_outputs] (parameters of action distributions) for observations."""
        return self._actor_outputs(self.views, observations)

    def target_actor_outputs(self, observations: Any) -> Tensor:
        """Target actor's outputs (parameters of action distributions) for observations, [rows, steps, num_outputs]."""
        return self._actor_outputs(self.target_views, observations)

    def outputs_of(self, name: str, observations: Any) -> Tensor:
        """Outputs [rows, steps, num_outputs] of a network given by name, such as a state-value network."""
        return run(self.others[name], self.views, observations)

    def target_outputs_of(self, name: str, observations: Any) -> Tensor:
        """Outputs [rows, steps, num_outputs] of the target copy of a network given by name, for observations."""
        return run(self.others[name], self.target_views, observations)

    def _actor_outputs(self, views: Mapping[str, Tensor], observations: Any) -> Tensor:
        state = observations.state if isinstance(observations, ObservationSequences) else None
        outputs = run(self.others["actor"], views, observations, state=state)
        return masked_tensor(outputs, action_masks(observations))


class DeterministicNetworks(ActorQNetworks):
    """Deterministic actor with tanh actions in [-1, 1], and critics Q(s, a)."""

    def actions(self, observations: Any) -> Tensor:
        """Deterministic actions [rows, steps, action_size] of the actor for observations [rows, steps, ...]."""
        return self.actor_outputs(observations).tanh()

    def target_actions(self, observations: Any) -> Tensor:
        """Deterministic actions [rows, steps, action_size] of the target actor for observations [rows, steps, ...]."""
        return self.target_actor_outputs(observations).tanh()


def run(
    network: TorchNetwork,
    views: Mapping[str, Tensor],
    observations: Any,
    actions: Tensor | None = None,
    *,
    state: Tensor | None = None,
    kept: Tensor | None = None,
) -> Tensor:
    """Forward pass of a network, with burn-in of the recurrent state for sequences; returns outputs [S, L, K].

    Args:
        network: The actor or a critic.
        views: Parameters by name.
        observations: Tree of observations [S, L, ...], or `ObservationSequences` with L selected steps.
        actions: Input actions [S, L, D] of a critic Q(s, a); None for other networks.
        state: Recurrent state before sequences, [S, state_size]; None for zeros, the state at an episode's start.
        kept: Dropout factors of a feed-forward network's units, [S, L, W]; None for no dropout.
    """
    vectors = {} if actions is None else {"actions": actions}
    if kept is not None:
        vectors[KEPT_UNITS] = kept
    if not isinstance(observations, ObservationSequences):
        heads, _ = network(views, {"obs": observations, **vectors})
        return heads["outputs"]
    starts, burn_in = observations.episode_starts, observations.burn_in
    if state is None:
        assert isinstance(network.module, NetworkModule)
        state = torch.zeros(len(starts), network.module.spec.state_size, device=starts.device)
    if burn_in:
        with torch.no_grad():
            before = {"obs": map_tree(lambda leaf: leaf[:, :burn_in], observations.obs)}
            unasked = {} if actions is None else {"actions": actions[:, :1]}
            first = observations.steps[:, :1] * 0
            _, state = network(views, {**before, **unasked}, state, starts[:, :burn_in], first)
    behind = {"obs": map_tree(lambda leaf: leaf[:, burn_in:], observations.obs), **vectors}
    heads, _ = network(views, behind, state, starts[:, burn_in:], observations.steps)
    return heads["outputs"]


def drawn_critics(
    generator: np.random.Generator, config: CriticEnsembleSettings, rows: int, length: int
) -> dict[str, NDArray[np.float32]]:
    """Samples the mask `DRAWN_CRITICS` of the `num_target_critics` critics that form a minibatch's targets.

    The result is a dict with this column, or an empty dict if the targets use all critics.

    Source:
        Chen et al., "Randomized ensembled double Q-learning", arXiv:2101.05982, algorithm 1.
    """
    number = config.num_target_critics
    if number is None:
        return {}
    is_drawn = generator.permutation(config.num_critics) < number
    return {DRAWN_CRITICS: np.tile(is_drawn.astype(np.float32), (rows, length, 1))}


def drawn_units(
    generator: np.random.Generator, networks: Sequence[TorchNetwork], rate: float, rows: int, length: int
) -> dict[str, NDArray[np.float32]]:
    """Samples the dropout factors of critics and target critics; returns them as a dict with the column `KEPT_UNITS`.

    At a rate of 0, the dict is empty.

    Args:
        generator: Random generator.
        networks: The critics.
        rate: Probability that a unit is dropped; the factors of other units are 1 / (1 - rate).
        rows: Number of rows in the minibatch, S.
        length: Number of steps in a row, L.
    """
    if not rate:
        return {}
    widths = [sum(network.module.spec.hiddens) for network in networks if isinstance(network.module, NetworkModule)]
    is_kept = generator.random((rows, length, 2 * sum(widths)), np.float32) >= rate
    return {KEPT_UNITS: is_kept * np.float32(1 / (1 - rate))}


def action_masks(observations: Any) -> dict[str, Tensor]:
    """Action masks at the steps that a loss uses, as a dict with the observations' keys; empty if there are none."""
    if not isinstance(observations, ObservationSequences):
        mask = mask_of(observations)
        return {} if mask is None else {ACTION_MASK: mask}
    mask = mask_of(observations.obs)
    if mask is None:
        return {}
    masks = mask[:, observations.burn_in :]
    return {ACTION_MASK: masks.gather(1, observations.steps.unsqueeze(-1).expand(-1, -1, masks.shape[-1]))}


def torch_networks(module: nn.Module, prefix: str) -> tuple[TorchNetwork, ...]:
    """Converts a policy's list of networks to functions that take the networks' parameters as input.

    Args:
        module: Module of the policy.
        prefix: Prefix of the parameter names of the networks in the list, such as the constant `CRITICS`.
    """
    networks = module.get_submodule(prefix.removesuffix("."))
    return tuple(TorchNetwork(network, prefix=f"{prefix}{i}.") for i, network in enumerate(networks.children()))


def repeated(observations: Any, times: int) -> Any:
    """Tree of observations [rows, 1, ...] with each row repeated along axis 1, [rows, times, ...]."""
    return map_tree(lambda leaf: leaf.expand(-1, times, *leaf.shape[2:]), observations)


def taken(outputs: Tensor, actions: Tensor) -> Tensor:
    """Selects, from the outputs for all actions, those for the Discrete actions taken, [..., rows, steps]."""
    index = actions.expand(outputs.shape[:-1]).unsqueeze(-1)
    return outputs.gather(-1, index).squeeze(-1)
