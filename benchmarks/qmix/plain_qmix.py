"""A plain QMIX in PyTorch: one process, one copy of the world, no framework (Rashid et al., 2018).

    python -m benchmarks.qmix.plain_qmix [--env-steps N] [--seed N]

It learns the paper's two-step game and prints the greedy return, whose maximum is 8. `run.py` compares it with rlrun.
It has the structure of PyMARL and CleanRL: act, step, store, and update every few steps. Minibatches contain
transitions; in the paper they contain whole episodes, because the agents have memory. It does not import rlrun.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

Floats = NDArray[np.float32]
DEFAULTS: dict[str, Any] = {
    "batch": 128,
    "update_every": 4,
    "hiddens": [64, 64],
    "mixer_hidden": 32,
    "capacity": 50_000,
    "learning_starts": 500,
    "lr": 5e-4,
    "gamma": 0.99,
    "target_interval": 200,
    "epsilon": 1.0,
    "max_grad_norm": 10.0,
}


class TwoStepGame:
    """The two-step game of section 5 in the paper: agent 0 chooses the table that pays in the second step."""

    tables = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])
    num_agents, num_actions, num_observed, state_size = 2, 2, 3, 3

    def reset(self, seed: int | None = None) -> tuple[Floats, Floats]:
        """Starts an episode."""
        self.stage = 0
        return self._seen()

    def step(self, actions: NDArray[np.int64]) -> tuple[Floats, Floats, float, bool, bool]:
        """Moves to a table in the first step, and pays its entry in the second."""
        if self.stage == 0:
            self.stage = 1 + int(actions[0])
            return *self._seen(), 0.0, False, False
        reward = float(self.tables[self.stage - 1, actions[0], actions[1]])
        self.stage = 3
        return *self._seen(), reward, True, False

    def _seen(self) -> tuple[Floats, Floats]:
        state = np.eye(4, 3, dtype=np.float32)[self.stage]
        return np.stack([state, state]), state


class Mixer(nn.Module):
    """Q = |w2(s)| elu(|W1(s)| q + b1(s)) + b2(s)."""

    def __init__(self, num_agents: int, state_size: int, width: int) -> None:
        super().__init__()
        self.w1, self.b1 = nn.Linear(state_size, num_agents * width), nn.Linear(state_size, width)
        self.w2 = nn.Linear(state_size, width)
        self.b2 = nn.Sequential(nn.Linear(state_size, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """Returns the team's values [N] from its members' values [N, K]."""
        first = self.w1(state).abs().view(len(state), values.shape[1], -1)
        hidden = F.elu(torch.bmm(values.unsqueeze(1), first).squeeze(1) + self.b1(state))
        mixed: Tensor = (hidden * self.w2(state).abs()).sum(-1) + self.b2(state).squeeze(-1)
        return mixed


class Transition(NamedTuple):
    """Columns of the replay buffer and of minibatches."""

    obs: Any
    state: Any
    actions: Any
    reward: Any
    terminated: Any
    next_obs: Any
    next_state: Any


class QMIX:
    """Agents that share a network, a mixer, target copies of both, and a replay buffer.

    Args:
        world: The only copy of the world, such as `TwoStepGame`: observations [K, D], a state, one reward for the team.
        settings: Settings, as in `DEFAULTS`.
        seed: Seed of all random numbers.
    """

    def __init__(self, world: Any, settings: dict[str, Any], seed: int) -> None:
        torch.manual_seed(seed)
        self.world, self.settings = world, settings
        self.draws = np.random.default_rng(seed)
        self.names = np.eye(world.num_agents, dtype=np.float32)
        agents, state_size = world.num_agents, world.state_size
        widths = [world.num_observed + agents, *settings["hiddens"]]

        def networks() -> tuple[nn.Sequential, Mixer]:
            layers = [m for i, o in pairwise(widths) for m in (nn.Linear(i, o), nn.ReLU())]
            agent = nn.Sequential(*layers, nn.Linear(widths[-1], world.num_actions))
            return agent, Mixer(agents, state_size, settings["mixer_hidden"])

        (self.agent, self.mixer), (self.target_agent, self.target_mixer) = networks(), networks()
        self.parameters = [*self.agent.parameters(), *self.mixer.parameters()]
        self.target_parameters = [*self.target_agent.parameters(), *self.target_mixer.parameters()]
        self.copy_to_target()
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings["lr"])
        shapes = [(agents, widths[0]), (state_size,), (agents,), (), (), (agents, widths[0]), (state_size,)]
        self.replay = Transition(*(np.zeros((settings["capacity"], *shape), np.float32) for shape in shapes))
        self.env_steps = self.updates = 0
        self.seen: tuple[Floats, Floats] = self.reset(seed)

    def reset(self, seed: int | None = None) -> tuple[Floats, Floats]:
        """Starts an episode; observations include an agent's one-hot index."""
        obs, state = self.world.reset(seed)
        return np.concatenate([obs, self.names], 1), state

    def copy_to_target(self) -> None:
        """Copies agent and mixer to their target networks."""
        with torch.no_grad():
            for target, own in zip(self.target_parameters, self.parameters, strict=True):
                target.copy_(own)

    def act(self, obs: Floats, epsilon: float) -> NDArray[np.int64]:
        """Returns epsilon-greedy actions [K]."""
        with torch.no_grad():
            best = self.agent(torch.from_numpy(obs)).argmax(-1).numpy()
        explores = self.draws.random(len(best)) < epsilon
        return np.where(explores, self.draws.integers(self.world.num_actions, size=len(best)), best)

    def step(self) -> None:
        """Takes an env step, stores it, and updates if it is time."""
        (obs, state), settings = self.seen, self.settings
        actions = self.act(obs, settings["epsilon"])
        shown, next_state, reward, terminated, truncated = self.world.step(actions)
        next_obs = np.concatenate([shown, self.names], 1)
        place = self.env_steps % settings["capacity"]
        found = Transition(obs, state, actions, reward, terminated, next_obs, next_state)
        for column, value in zip(self.replay, found, strict=True):
            column[place] = value
        self.env_steps += 1
        self.seen = self.reset() if terminated or truncated else (next_obs, next_state)
        if self.env_steps > settings["learning_starts"] and self.env_steps % settings["update_every"] == 0:
            self.update()

    def update(self) -> None:
        """Learns from a minibatch of transitions (eq. 6, double Q-learning), and updates the targets periodically."""
        settings = self.settings
        drawn = self.draws.integers(min(self.env_steps, settings["capacity"]), size=settings["batch"])
        batch = Transition(*(torch.from_numpy(column[drawn]) for column in self.replay))
        taken = self.agent(batch.obs).gather(-1, batch.actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            best = self.agent(batch.next_obs).argmax(-1, keepdim=True)
            behind = self.target_agent(batch.next_obs).gather(-1, best).squeeze(-1)
            worth = self.target_mixer(behind, batch.next_state)
            targets = batch.reward + settings["gamma"] * (1 - batch.terminated) * worth
        loss = F.mse_loss(self.mixer(taken, batch.state), targets)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, settings["max_grad_norm"])
        self.optimizer.step()
        self.updates += 1
        if self.updates % settings["target_interval"] == 0:
            self.copy_to_target()

    def greedy_return(self) -> float:
        """Returns the return of an episode with greedy actions."""
        (obs, _), paid, over = self.reset(), 0.0, False
        while not over:
            shown, _, reward, terminated, truncated = self.world.step(self.act(obs, 0.0))
            obs, paid, over = np.concatenate([shown, self.names], 1), paid + reward, terminated or truncated
        return paid


def main() -> None:
    """Learns the two-step game and prints the greedy return."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--env-steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    learner = QMIX(TwoStepGame(), DEFAULTS, options.seed)
    for _ in range(options.env_steps):
        learner.step()
    print(f"greedy return after {options.env_steps:,} env steps: {learner.greedy_return():.3f}")


if __name__ == "__main__":
    main()
