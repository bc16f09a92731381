"""Networks of DreamerV3, as losses run them (torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlrun.algorithms.dreamer.actions import DreamerActions
from rlrun.algorithms.dreamer.symlog import mean_of_bins
from rlrun.algorithms.dreamer.world_model import ACTOR, CRITIC, WORLD, States, WorldModel
from rlrun.data.sample_batch import SampleBatch


class Rows(NamedTuple):
    """The L + 1 observations of rows of L steps: rewards, ends and previous actions; [S, L + 1, ...].

    Row t is the observation that step t begins with; what step t - 1 gave is there too. An episode's final
    observation is a row of its own, in which no step begins.

    Attributes:
        counts: 1 where there is an observation, else 0.
        is_behind: 1 where an observation is behind a step of these rows, so that its reward and its end are known.
        rewards: What that step gave.
        continues: 0 where it ended the episode for good, else 1.
        starts: 1 where an episode begins.
        actions: The action of the step before, as the model sees it; of the first row what `state` remembers.
    """

    counts: Tensor
    is_behind: Tensor
    rewards: Tensor
    continues: Tensor
    starts: Tensor
    actions: Tensor


class Imagined(NamedTuple):
    """Trajectories that a world model imagines, N of them with H steps each.

    Attributes:
        features: Of their states, [N, H + 1, F].
        actions: The actor's actions, [N, H, A].
        rewards: What the steps are expected to give, [N, H].
        continues: Probabilities that the episode goes on behind them, [N, H].
    """

    features: Tensor
    actions: Tensor
    rewards: Tensor
    continues: Tensor


@dataclass(frozen=True)
class DreamerNetworks:
    """What the losses are functions of.

    Attributes:
        model: The world model, actor and critic.
        slow: The same with the parameters of the slow critic.
        actions: The actions.
        bins: Of rewards and returns, [M].
    """

    model: WorldModel
    slow: WorldModel
    actions: DreamerActions
    bins: Tensor

    def rows(self, batch: SampleBatch) -> Rows:
        """Returns what a batch says of the observations [S, L + 1] of its rows."""
        valid = batch["valid"].float()
        none = torch.zeros_like(valid[:, :1])
        is_behind = torch.cat([none, valid], 1)
        first = batch["state"][:, None, self.model.spec.features :]
        recorded = self.actions.recorded(batch["actions"]) * valid.unsqueeze(-1)
        going_on = (batch["discounts"] > 0).float()
        return Rows(
            counts=torch.cat([valid, none], 1).maximum(is_behind),
            is_behind=is_behind,
            rewards=torch.cat([none, batch["rewards"] * valid], 1),
            continues=1 - is_behind * (1 - torch.cat([none, going_on], 1)),
            starts=batch["episode_starts"].float(),
            actions=torch.cat([first, recorded], 1),
        )

    def observe(self, batch: SampleBatch, rows: Rows) -> tuple[States, Tensor]:
        """Returns the states of a batch's observations [S, L + 1, ...], and their latent parts' distributions."""
        model, recurrent = self.model, self.model.spec.recurrent
        before = batch["state"]
        state = States(before[:, :recurrent], before[:, recurrent : model.spec.features])
        return model.observe(model.encode(batch["obs"]), rows.actions, rows.starts, state, batch["latent_noise"])

    def reconstruction_errors(self, features: Tensor, observations: Any) -> Tensor:
        """Returns the squared errors of what states [S, L, F] are expected to show, summed over numbers, [S, L].

        Numbers are compared as symlog of them, pixels as they are between 0 and 1.
        """
        model, shape = self.model, features.shape[:2]
        errors = torch.zeros(shape, device=features.device)
        if model.spec.dense_width:
            decoded = model.head(f"{WORLD}decoder", features)
            errors = errors + (decoded - model.numbers(observations)).square().sum(-1)
        if model.spec.images:
            for decoded, shown in zip(model.decode_images(features), model.pixels(observations), strict=True):
                errors = errors + (decoded - shown).square().flatten(1).sum(-1).view(shape)
        return errors

    def imagine(self, features: Tensor, latent_noise: Tensor, action_noise: Tensor) -> Imagined:
        """Imagines what the actor's actions lead to; no gradients.

        Args:
            features: The states that trajectories begin with, [N, F].
            latent_noise: Uniform numbers by which latent parts are drawn, [N, H, K].
            action_noise: Noise by which actions are drawn, [N, H, ...].
        """
        model, spec = self.model, self.model.spec
        with torch.no_grad():
            state = States(features[:, : spec.recurrent], features[:, spec.recurrent :])
            passed, taken = [features], []
            for latent_draw, action_draw in zip(latent_noise.unbind(1), action_noise.unbind(1), strict=True):
                action = self.actions.imagined(self.actor_outputs(passed[-1]), action_draw)
                state = model.imagine(state, self.actions.imagined_seen(action), latent_draw)
                passed.append(state.features)
                taken.append(action)
            states = torch.stack(passed, 1)
            behind = states[:, 1:].contiguous()  # layers take a slice row by row else, which is several times slower
            rewards, continues = self.rewards(behind), self.continue_logits(behind).sigmoid()
        return Imagined(states, torch.stack(taken, 1), rewards, continues)

    def actor_outputs(self, features: Tensor) -> Tensor:
        """Returns what describes the actor's distributions in states [..., F]."""
        return self.actions.outputs_of(self.model.head(ACTOR[:-1], features))

    def reward_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of the bins of the reward that led to states [..., F], [..., M]."""
        return self.model.head(f"{WORLD}reward", features)

    def rewards(self, features: Tensor) -> Tensor:
        """Returns the expected reward that led to states [..., F], [...]."""
        return mean_of_bins(self.reward_logits(features).softmax(-1), self.bins)

    def continue_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of that an episode goes on behind states [..., F], [...]."""
        return self.model.head(f"{WORLD}continue", features).squeeze(-1)

    def value_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of the bins of the critic's returns from states [..., F], [..., M]."""
        return self.model.head(CRITIC[:-1], features)

    def values(self, features: Tensor) -> Tensor:
        """Returns the critic's values of states [..., F], [...]."""
        return mean_of_bins(self.value_logits(features).softmax(-1), self.bins)

    def slow_values(self, features: Tensor) -> Tensor:
        """Returns the slow critic's values of states [..., F], [...]; no gradients."""
        with torch.no_grad():
            return mean_of_bins(self.slow.head(CRITIC[:-1], features).softmax(-1), self.bins)
