"""PPO's minibatch update written directly in PyTorch: modules, a loss, `backward()` and Adam, without a framework.

`run.py` compares rlrun with it: eager, and with `torch.compile(mode="reduce-overhead")`, which fuses operations and
replays them as CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT, MAX_NORM = 0.2, 0.5, 0.01, 0.5


class Agent(nn.Module):
    """Actor and critic: two dense networks for vectors, or the convolutions of the Nature paper for frames.

    Args:
        shape: Shape of an observation.
        num_actions: Number of discrete actions.
        width: Width of the two dense layers for vectors.
    """

    def __init__(self, shape: tuple[int, ...], num_actions: int, width: int) -> None:
        super().__init__()
        self.has_frames = len(shape) == 3
        if self.has_frames:
            self.body = nn.Sequential(
                nn.Conv2d(shape[0], 32, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, stride=2),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(64 * 7 * 7, 512),
                nn.ReLU(),
            )
            self.actor, self.critic = (nn.Sequential(nn.Linear(512, outputs)) for outputs in (num_actions, 1))
        else:
            self.body = nn.Sequential()
            self.actor, self.critic = (
                nn.Sequential(
                    nn.Linear(shape[0], width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
                )
                for outputs in (num_actions, 1)
            )

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Returns logits [N, A] and values [N]."""
        hidden = self.body(obs.float() / 255 if self.has_frames else obs)
        return self.actor(hidden), self.critic(hidden)[:, 0]


def plain_update(
    agent: Agent, optimizer: torch.optim.Optimizer, *, half: bool
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Returns a function that updates on a minibatch and returns its statistics.

    Args:
        agent: The networks.
        optimizer: Optimizer of the agent's parameters.
        half: Whether forward passes use bfloat16, with autocast.
    """

    def update(batch: Mapping[str, Tensor]) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            logits, values = agent(batch["obs"])
        logp = logits.float().log_softmax(-1)
        ratio = (logp.gather(-1, batch["actions"][:, None])[:, 0] - batch["logp"]).exp()
        gain = torch.minimum(ratio * batch["advantages"], ratio.clamp(1 - CLIP, 1 + CLIP) * batch["advantages"])
        value_loss = (values.float() - batch["value_targets"]).square().mean()
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -gain.mean() + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * entropy
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(agent.parameters(), MAX_NORM)
        optimizer.step()
        return torch.stack([loss.detach(), value_loss.detach(), entropy.detach(), norm])

    return update


def plain_agent(shape: tuple[int, ...], num_actions: int, width: int) -> tuple[Agent, Any]:
    """Returns networks on the GPU and their optimizer: Adam, fused into one kernel."""
    agent = Agent(shape, num_actions, width).cuda()
    return agent, torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5, fused=True, capturable=True)
