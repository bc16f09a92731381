"""Policy of ArCHer: an actor that chooses tokens, and separate networks as critics of utterances (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.archer.settings import ACTOR, CRITICS, ArcherConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import Head, NetworkSpec, Tower
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import masked_tensor
from rlrun.engine.policy.action_spaces.discrete import Categorical, DiscreteActions
from rlrun.engine.policy.actor_critic import ActorCriticPolicy

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces

Views = Mapping[str, Tensor]


class ArcherPolicy(ActorCriticPolicy):
    """Actor-critic policy whose critics are two pairs of Q and V functions of utterances.

    The critics' core reads the dialogue token by token. V is evaluated at an utterance's first token. Q is evaluated at
    the utterance's last choice, as a value for each possible token: the observations show the earlier tokens, and at
    later tokens there is no choice.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: Actions are not tokens, or a token that should end utterances does not exist.
    """

    def __init__(self, spaces: Spaces, config: ArcherConfig, seed: int) -> None:
        super().__init__(spaces, config, seed)
        if not isinstance(self.action_space, DiscreteActions):
            raise UsageError(f"archer needs a Discrete action space (tokens), but this env has {spaces.action}")
        if unknown := [token for token in config.utterance_end or () if token >= self.action_space.num_outputs]:
            raise UsageError(
                f"utterance_end: token {unknown[0]} does not exist; valid tokens are 0 to "
                f"{self.action_space.num_outputs - 1}"
            )
        spec = self.spec()
        self.actor = TorchNetwork(NetworkModule(spec.only("outputs")))
        self.critics = TorchNetwork(NetworkModule(spec.only("value", "value2", "q1", "q2")))

    @override
    def spec(self) -> NetworkSpec:
        """Network spec: a tower for the actor, and a tower for the critics with heads for two Q and two V functions."""
        found = super().spec()
        actor, critics = found.towers
        outputs = {"value": 1, "value2": 1, "q1": self.action_space.num_outputs, "q2": self.action_space.num_outputs}
        hiddens = (self.model.core_width,)
        heads = tuple(Head(name, f"{CRITICS}{name}_head", size, hiddens=hiddens) for name, size in outputs.items())
        return NetworkSpec(**{**vars(found), "towers": (actor, Tower(heads, critics.prefix, critics.leaves))})

    @override
    def outputs(  # type: ignore[override]  # has the same attributes, computed lazily
        self, views: Views, batch: SampleBatch, target_views: Views | None = None
    ) -> ArcherOutputs:
        """Network outputs for a batch [rows, steps, ...], each computed on first access."""
        return ArcherOutputs(self, views, views if target_views is None else target_views, batch)


@dataclass(frozen=True)
class UtteranceValues:
    """Q and V values of utterances, estimated by two critics.

    Attributes:
        q: Q(s, u) for each possible token at a step, if that token were the utterance's last choice, [2, S, L, A].
        v: V(s) before each step, [2, S, L]; [2, S, L + 1] if the batch includes the observation after the last step.
    """

    q: Tensor
    v: Tensor


@dataclass(frozen=True)
class ArcherOutputs:
    """Outputs of actor and critics for rows of experience, computed on first access.

    Attributes:
        policy: The policy.
        views: The policy's parameters by name.
        target_views: Parameters by name, with the target critics' parameters in place of the critics'.
        batch: Columns [S, L, ...]; `obs` and `episode_starts` may have length L + 1.
    """

    policy: ArcherPolicy
    views: Views
    target_views: Views
    batch: SampleBatch

    @property
    def distribution(self) -> Categorical:
        """Distributions over the tokens, [rows, steps]."""
        length = self.batch["valid"].shape[1]
        obs = map_tree(lambda leaf: leaf[:, :length], self.batch["obs"])
        starts, state = self.batch["episode_starts"][:, :length], self.batch["state"].chunk(2, -1)[0]
        heads, _ = self.policy.actor(_under(ACTOR, self.views), {"obs": obs}, state, starts)
        return Categorical(masked_tensor(heads["outputs"], obs))

    @property
    def values(self) -> Tensor:
        """State values: the smaller of the two critics' V, [rows, steps]."""
        return self.utterance_values().v[:, :, : self.batch["valid"].shape[1]].amin(0)

    def utterance_values(self) -> UtteranceValues:
        """Q and V values of utterances, computed by the critics."""
        return self._utterance_values(self.views)

    def target_utterance_values(self) -> UtteranceValues:
        """Q and V values of utterances, computed by the target critics, without gradient."""
        with torch.no_grad():
            return self._utterance_values(self.target_views)

    def _utterance_values(self, views: Views) -> UtteranceValues:
        batch, critics = self.batch, self.policy.critics
        state, length = batch["state"].chunk(2, -1)[1], batch["valid"].shape[1]
        heads, _ = critics(_under(CRITICS, views), {"obs": batch["obs"]}, state, batch["episode_starts"])
        q = torch.stack([heads["q1"], heads["q2"]])[:, :, :length]
        return UtteranceValues(q, torch.stack([heads["value"], heads["value2"]]).squeeze(-1))


def evaluated_tokens(outputs: ArcherOutputs, batch: SampleBatch) -> dict[str, Tensor]:
    """Computes the minima of Q and of V over both critics, and the actor's token probabilities.

    This is a function for `Learner.evaluate`.

    `q` and `probabilities` have an entry for each possible token at each step, [S, L, A]; `v` for each step, [S, L].
    """
    values = outputs.utterance_values()
    return {"q": values.q.amin(0), "v": values.v.amin(0), "probabilities": outputs.distribution.log_probs.exp()}


def _under(prefix: str, views: Views) -> dict[str, Tensor]:
    return {name: view for name, view in views.items() if name.startswith(prefix)}
