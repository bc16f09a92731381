"""SheepRL's side of the DreamerV3 benchmark; `run.py` starts it in a separate venv.

It creates SheepRL's agent, optimizers and update as SheepRL's own training does, and runs them on random sequences
shaped like CartPole's. It does not import rlrun, so it can run in a venv without it.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from lightning.fabric import Fabric
from omegaconf import OmegaConf
from sheeprl.algos.dreamer_v3.agent import build_agent
from sheeprl.algos.dreamer_v3.dreamer_v3 import train
from sheeprl.algos.dreamer_v3.utils import Moments
from sheeprl.utils.metric import MetricAggregator
from sheeprl.utils.utils import dotdict

from benchmarks.peers import Measurement, answer, fastest

ENV = ["exp=dreamer_v3", "env=gym", "env.id=CartPole-v1"]
OF_VECTORS = [f"algo.mlp_keys.{side}=[state]" for side in ("encoder", "decoder")]
NOT_OF_IMAGES = [f"algo.cnn_keys.{side}=[]" for side in ("encoder", "decoder")]


def measured(work: Measurement) -> Measurement:
    """Returns the CPU seconds of the fastest update of a size, except the first one, and the number of parameters."""
    with initialize_config_module("sheeprl.configs", version_base="1.3"):
        composed = compose("config", [*ENV, *OF_VECTORS, *NOT_OF_IMAGES, f"algo=dreamer_v3_{work['size'].upper()}"])
    config = dotdict(OmegaConf.to_container(composed, resolve=True, throw_on_missing=False))
    MetricAggregator.disabled = True
    fabric = Fabric(accelerator="cpu", devices=1)
    observations = gymnasium.spaces.Dict({"state": gymnasium.spaces.Box(-np.inf, np.inf, (4,))})
    world_model, actor, critic, target_critic, _ = build_agent(fabric, (2,), False, config, observations)
    parts = {"world_model": world_model, "actor": actor, "critic": critic}
    optimizers = fabric.setup_optimizers(
        *(
            instantiate(config.algo[name].optimizer, params=part.parameters(), _convert_="all")
            for name, part in parts.items()
        )
    )
    percentile = config.algo.actor.moments
    moments = Moments(percentile.decay, percentile.max, percentile.percentile.low, percentile.percentile.high)
    data = random_sequences(work["length"], work["sequences"])

    def update() -> None:
        train(fabric, world_model, actor, critic, target_critic, *optimizers, data, None, config, False, (2,), moments)

    update()
    seconds = fastest({"update": update}, work["updates"])
    parameters = sum(one.numel() for part in parts.values() for one in part.parameters())
    return {"seconds": seconds["update"], "parameters": parameters}


def random_sequences(length: int, rows: int) -> dict[str, torch.Tensor]:
    """Returns a minibatch [T, B] of random numbers."""
    shape = (length, rows)
    return {
        "state": torch.randn(*shape, 4),
        "actions": torch.nn.functional.one_hot(torch.randint(2, shape), 2).float(),
        "rewards": torch.rand(*shape, 1),
        "terminated": torch.zeros(*shape, 1),
        "truncated": torch.zeros(*shape, 1),
        "is_first": (torch.rand(*shape, 1) < 0.05).float(),
    }


if __name__ == "__main__":
    answer(measured)
