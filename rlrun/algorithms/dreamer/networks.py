"""World model, actor and critic of DreamerV3, for losses (torch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlrun.algorithms.dreamer.actions import DreamerActions
from rlrun.algorithms.dreamer.symlog import mean_of_bins
from rlrun.algorithms.dreamer.world_model import ACTOR, CRITIC, WORLD, States, WorldModel
from rlrun.engine.data.sample_batch import SampleBatch


class TrainingRows(NamedTuple):
    """Training sequences of the world model: each observation's previous action, reward and continuation.

    Entry t holds observation t, and the action and outcome of step t - 1, which led to this observation. The final
    observation of an episode has an entry too, although no step follows.

    Attributes:
        counts: Mask of entries with an observation, [S, L + 1].
        is_behind: Mask of observations that follow a recorded step, so that reward and continuation are known.
        rewards: Reward of the step before each observation, [S, L + 1].
        continues: Continuation flags: 0 where the step before the observation terminated the episode, else 1.
        starts: Flags of the first observations of episodes, [S, L + 1].
        actions: Previous actions as model inputs, [S, L + 1, A]; the first one is taken from the recurrent state.
    """

    counts: Tensor
    is_behind: Tensor
    rewards: Tensor
    continues: Tensor
    starts: Tensor
    actions: Tensor


class Imagined(NamedTuple):
    """N imagined trajectories of horizon H in the latent space of a world model.

    Attributes:
        features: Features of the latent states, [N, H + 1, F].
        actions: The actor's actions, [N, H, A].
        rewards: Predicted rewards, [N, H].
        continues: Predicted probabilities that the episode continues after each step, [N, H].
    """

    features: Tensor
    actions: Tensor
    rewards: Tensor
    continues: Tensor


@dataclass(frozen=True)
class DreamerNetworks:
    """World model, actor, critic and slow critic, as losses use them: evaluated with given parameters.

    Attributes:
        model: World model, actor and critic.
        slow: World model, actor and critic with the target parameters; only its critic is used, as the slow critic.
        actions: Action distributions of the actor.
        bins: Bins of the two-hot encoding of rewards and returns, [M].
    """

    model: WorldModel
    slow: WorldModel
    actions: DreamerActions
    bins: Tensor

    def rows(self, batch: SampleBatch) -> TrainingRows:
        """Creates training sequences of observations, each with the action, reward and continuation just before it."""
        valid = batch["valid"].float()
        none = torch.zeros_like(valid[:, :1])
        is_behind = torch.cat([none, valid], 1)
        first = batch["state"][:, None, self.model.spec.features :]
        recorded = self.actions.recorded(batch["actions"]) * valid.unsqueeze(-1)
        going_on = (batch["discounts"] > 0).float()
        return TrainingRows(
            counts=torch.cat([valid, none], 1).maximum(is_behind),
            is_behind=is_behind,
            rewards=torch.cat([none, batch["rewards"] * valid], 1),
            continues=1 - is_behind * (1 - torch.cat([none, going_on], 1)),
            starts=batch["episode_starts"].float(),
            actions=torch.cat([first, recorded], 1),
        )

    def observe(self, batch: SampleBatch, rows: TrainingRows) -> tuple[States, Tensor]:
        """Infers the latent states of a minibatch's observations; returns them with their posterior distributions."""
        model, recurrent = self.model, self.model.spec.recurrent
        before = batch["state"]
        state = States(before[:, :recurrent], before[:, recurrent : model.spec.features])
        return model.observe(model.encode(batch["obs"]), rows.actions, rows.starts, state, batch["latent_noise"])

    def reconstruction_errors(self, features: Tensor, observations: Any) -> Tensor:
        """Reconstruction loss [S, L]: summed squared errors of observations decoded from states [S, L, F].

        Vectors are compared after the symlog transformation, pixels in the range [0, 1].
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
        """Rolls the actor out in the world model for H steps, without gradients.

        Args:
            features: Features of the initial latent states, [N, F].
            latent_noise: Uniform noise for sampling the categorical latents, [N, H, K].
            action_noise: Noise for sampling the actions, [N, H, ...].
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
            behind = states[:, 1:].contiguous()  # layers would process a slice row by row, which is far slower
            rewards, continues = self.rewards(behind), self.continue_logits(behind).sigmoid()
        return Imagined(states, torch.stack(taken, 1), rewards, continues)

    def actor_outputs(self, features: Tensor) -> Tensor:
        """Parameters of the actor's action distributions for latent states [..., F]."""
        return self.actions.outputs_of(self.model.head(ACTOR[:-1], features))

    def reward_logits(self, features: Tensor) -> Tensor:
        """Logits [..., M] of the reward predictor over two-hot bins, for latent states [..., F] after the reward."""
        return self.model.head(f"{WORLD}reward", features)

    def rewards(self, features: Tensor) -> Tensor:
        """Predicted rewards [...] of the steps that led to latent states [..., F]."""
        return mean_of_bins(self.reward_logits(features).softmax(-1), self.bins)

    def continue_logits(self, features: Tensor) -> Tensor:
        """Logits [...] of the probability that the episode continues after latent states [..., F]."""
        return self.model.head(f"{WORLD}continue", features).squeeze(-1)

    def value_logits(self, features: Tensor) -> Tensor:
        """Logits [..., M] of the critic's return distribution over two-hot bins, for latent states [..., F]."""
        return self.model.head(CRITIC[:-1], features)

    def values(self, features: Tensor) -> Tensor:
        """Critic's state values [...] for latent states [..., F]: means of its return distributions."""
        return mean_of_bins(self.value_logits(features).softmax(-1), self.bins)

    def slow_values(self, features: Tensor) -> Tensor:
        """Slow critic's state values [...] for latent states [..., F], without gradients."""
        with torch.no_grad():
            return mean_of_bins(self.slow.head(CRITIC[:-1], features).softmax(-1), self.bins)
