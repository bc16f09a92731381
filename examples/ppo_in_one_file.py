"""Example 8: PPO in one file, everything that happens when PPO learns CartPole, with torch and Gymnasium alone.

    python ppo_in_one_file.py                    # about a minute on one core; prints the mean return
    python ppo_in_one_file.py --seed 3 --env Acrobot-v1

The file is for reading. Start at the bottom: `main` collects T steps in each of B envs, learns
from these N = T * B steps, and repeats. Comments name the equation that a line computes:

- PPO: Schulman et al., "Proximal policy optimization algorithms", arXiv:1707.06347.
- GAE: Schulman et al., "High-dimensional continuous control using generalized advantage estimation", arXiv:1506.02438.
- Adam: Kingma and Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980.

rlrun's own PPO consists of parts that other algorithms share; their names are in brackets: [ComputeAdvantages]. A test
starts both from the same weights, batch and order of minibatches, and checks that their updates are equal.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Settings:
    """Settings, with the names that they have in rlrun's specs."""

    env_steps: int = 100_000
    num_envs: int = 8
    """Number of envs, B."""
    fragment_length: int = 64
    """Steps in each env between two updates, T."""
    num_epochs: int = 10
    minibatch_size: int = 64
    lr: float = 1e-3
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip_param: float = 0.2
    vf_loss_coeff: float = 0.5
    entropy_coeff: float = 0.0
    max_grad_norm: float = 0.5
    hidden: int = 64


# --- The networks


class ActorCritic(nn.Module):
    """A policy and a value function, each a network of two hidden layers.

    Args:
        inputs: Size of an observation, D.
        actions: Number of actions, A.
        hidden: Width of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hidden: int) -> None:
        super().__init__()
        self.actor = network(inputs, hidden, actions, last_gain=0.01)  # nearly uniform at first
        self.critic = network(inputs, hidden, 1, last_gain=1.0)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities [N, A] and values [N] of observations [N, D]."""
        return self.actor(observations).log_softmax(-1), self.critic(observations).squeeze(-1)


def network(inputs: int, hidden: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Creates a network with orthogonal weights: a gain of sqrt(2) for hidden layers, and biases of zero."""
    layers = [nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)]
    for layer, gain in zip(layers, (2**0.5, 2**0.5, last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


# --- Collecting experience


@dataclass
class Batch:
    """T steps in each of B envs.

    Attributes:
        observations: What the policy saw before each step, [T, B, D].
        actions: What it did, [T, B].
        logp: The log-probability of that action when it was taken, [T, B].
        values: The value of each observation, [T, B].
        next_values: The value of the observation after each step, [T, B]. At an episode's end this is the episode's
            final observation and not the first one of the next episode.
        rewards: Rewards, [T, B].
        terminated: Whether the step ended the episode for good, so that no reward can follow, [T, B].
        ended: Whether the step ended the episode, also by a time limit, [T, B].
    """

    observations: Tensor
    actions: Tensor
    logp: Tensor
    values: Tensor
    next_values: Tensor
    rewards: Tensor
    terminated: Tensor
    ended: Tensor


class Collector:
    """Steps B envs with the current policy, and remembers where each of them is.

    Args:
        env: Id of the env.
        num_envs: Number of envs, B.
        seed: Seed; env b begins with seed + b.

    Attributes:
        returns: Returns of all finished episodes, in order.
    """

    def __init__(self, env: str, num_envs: int, seed: int) -> None:
        self.envs = [gymnasium.make(env) for _ in range(num_envs)]
        self.observations = np.stack([each.reset(seed=seed + b)[0] for b, each in enumerate(self.envs)])
        self.returns: list[float] = []
        self._sums = np.zeros(num_envs)

    @torch.no_grad()
    def collect(self, model: ActorCritic, steps: int) -> Batch:
        """Collects a batch of `steps` steps in each env [parallel_rollouts]."""
        rows = []
        for _ in range(steps):
            observations = torch.tensor(self.observations)  # a copy: the array is overwritten below
            logps, values = model(observations)
            actions = torch.multinomial(logps.exp(), 1).squeeze(-1)
            rewards, terminated, ended = (np.zeros(len(self.envs), np.float32) for _ in range(3))
            finals = self.observations.copy()
            for b, env in enumerate(self.envs):
                finals[b], rewards[b], terminated[b], truncated, _ = env.step(actions[b].item())
                ended[b] = terminated[b] or truncated
                self.observations[b] = finals[b]
                self._sums[b] += rewards[b]
                if ended[b]:
                    self.observations[b], _ = env.reset()
                    self.returns.append(float(self._sums[b]))
                    self._sums[b] = 0.0
            _, next_values = model(torch.as_tensor(finals))
            logp = logps.gather(-1, actions[:, None]).squeeze(-1)
            outcome = map(torch.as_tensor, (rewards, terminated, ended))
            rows.append((observations, actions, logp, values, next_values, *outcome))
        return Batch(*(torch.stack(column) for column in zip(*rows, strict=True)))


# --- Advantages


def advantages_of(batch: Batch, gamma: float, gae_lambda: float) -> tuple[Tensor, Tensor]:
    """Generalized advantage estimation, and the targets of the value function [ComputeAdvantages].

    A step that terminated its episode has no successor, and its target is the reward alone. A step that was cut off by
    a time limit has one: its target includes the value of the episode's final observation. No advantage is passed
    across either kind of end.

    Returns:
        Advantages and value targets, each [T, B].
    """
    # GAE, below eq. 10: delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    deltas = batch.rewards + gamma * (1 - batch.terminated) * batch.next_values - batch.values
    advantages = torch.zeros_like(deltas)
    following = torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        # GAE, eq. 16, as a recursion: A_t = delta_t + gamma lambda A_{t+1}
        following = deltas[t] + gamma * gae_lambda * (1 - batch.ended[t]) * following
        advantages[t] = following
    return advantages, advantages + batch.values


# --- Learning


class Adam:
    """Adam (algorithm 1), with the step size and the denominator corrected for the bias of the first steps."""

    def __init__(self, parameters: list[nn.Parameter], lr: float, epsilon: float = 1e-5) -> None:
        self.parameters, self.lr, self.epsilon = parameters, lr, epsilon
        self.first = [torch.zeros_like(parameter) for parameter in parameters]
        self.second = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """Updates the parameters in place."""
        self.steps += 1
        for parameter, gradient, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            m.lerp_(gradient, 0.1)  # m_t = beta_1 m_{t-1} + (1 - beta_1) g_t, beta_1 = 0.9
            v.lerp_(gradient.square(), 0.001)  # v_t = beta_2 v_{t-1} + (1 - beta_2) g_t^2, beta_2 = 0.999
            m_hat, v_hat = m / (1 - 0.9**self.steps), v / (1 - 0.999**self.steps)
            parameter.sub_(self.lr * m_hat / (v_hat.sqrt() + self.epsilon))


def loss_of(
    model: ActorCritic,
    settings: Settings,
    observations: Tensor,
    actions: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    targets: Tensor,
) -> Tensor:
    """The loss of a minibatch: what PPO maximizes, with the opposite sign [PPO.loss].

    Args:
        model: The networks.
        settings: Clip range and coefficients.
        observations: Observations, [M, D].
        actions: Actions, [M].
        old_logp: Log-probabilities of the actions when they were taken, [M].
        advantages: Standardized advantages, [M].
        targets: Value targets, [M].
    """
    logps, values = model(observations)
    ratio = (logps.gather(-1, actions[:, None]).squeeze(-1) - old_logp).exp()  # eq. 6: r_t(theta)
    clipped = ratio.clamp(1 - settings.clip_param, 1 + settings.clip_param)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages).mean()  # eq. 7: L^CLIP
    value_loss = (values - targets).square().mean()  # below eq. 9: L^VF
    entropy = -(logps.exp() * logps).sum(-1).mean()  # S[pi]
    loss: Tensor = settings.vf_loss_coeff * value_loss - surrogate - settings.entropy_coeff * entropy  # eq. 9
    return loss


def learn(model: ActorCritic, optimizer: Adam, batch: Batch, order: np.ndarray, settings: Settings) -> None:
    """Epochs of minibatch gradient descent on one batch [TrainOnBatch].

    Args:
        model: The networks.
        optimizer: Optimizer of the model's parameters.
        batch: The batch, of N = T * B steps.
        order: Permutation of the steps for each epoch, [epochs, N].
        settings: Settings of the loss.
    """
    advantages, targets = advantages_of(batch, settings.gamma, settings.gae_lambda)
    advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)  # [Standardize]
    columns = [column.flatten(0, 1) for column in (batch.observations, batch.actions, batch.logp, advantages, targets)]
    parameters = list(model.parameters())
    for epoch in torch.as_tensor(order):
        for chosen in epoch.split(settings.minibatch_size):
            loss = loss_of(model, settings, *(column[chosen] for column in columns))
            gradients = list(torch.autograd.grad(loss, parameters))
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
            scale = (settings.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
            optimizer.step([gradient * scale for gradient in gradients])


def main(env: str, seed: int, settings: Settings) -> ActorCritic:
    """Trains on an env with discrete actions, and prints the mean return of the last 100 episodes."""
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    collector = Collector(env, settings.num_envs, seed)
    actions = int(collector.envs[0].action_space.n)
    model = ActorCritic(collector.observations.shape[1], actions, settings.hidden)
    optimizer = Adam(list(model.parameters()), settings.lr)
    size = settings.num_envs * settings.fragment_length
    for iteration in range(1, settings.env_steps // size + 1):
        batch = collector.collect(model, settings.fragment_length)
        order = np.stack([generator.permutation(size) for _ in range(settings.num_epochs)])
        learn(model, optimizer, batch, order, settings)
        if iteration % 10 == 0 and collector.returns:
            print(f"{iteration * size:>8,} env steps: mean return {np.mean(collector.returns[-100:]):.1f}")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains PPO.")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--env-steps", type=int, default=Settings.env_steps)
    given = parser.parse_args()
    main(given.env, given.seed, Settings(env_steps=given.env_steps))
