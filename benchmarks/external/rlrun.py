"""rlrun's side of the external benchmark: PPO, while clients on other cores run the episodes."""

from __future__ import annotations

from benchmarks.external.load import OBSERVATION, Load, free_port, pinned
from benchmarks.ours import training_of
from benchmarks.peers import Measurement, answer


def measured(work: Measurement) -> Measurement:
    """Trains with one pass of one minibatch per batch while clients request actions; returns their measurements."""
    pinned()
    port, episodes = free_port(), work["connections"] * work["messages"]
    spaces = {
        "observation": {"type": "Box", "shape": [len(OBSERVATION)], "low": -5, "high": 5},
        "action": {"type": "Discrete", "n": 2},
    }
    batch = {"train_batch_size": 256 * episodes, "minibatch_size": 256 * episodes, "num_epochs": 1}
    config = {**batch, "num_envs_per_worker": episodes, "model": {"hiddens": [64, 64]}}
    world = {"external": {"port": port, "spaces": spaces, "max_requests_per_s": 1e9}}
    with (
        training_of({**work, "algorithm": "ppo", "world": world}, config) as training,
        Load({**work, "begins": True}, port) as load,
    ):
        while load.measured is None:
            training.step()
    return load.measured


if __name__ == "__main__":
    answer(measured)
