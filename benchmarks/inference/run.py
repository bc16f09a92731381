"""Measures collection speed with an inference server and with workers that act themselves: Pong's network with an LSTM.

    python -m benchmarks.inference.run            # all settings in turn, and the times behind the differences

The benchmark only collects fragments, without learning. The settings run in turn, so that other load on the machine
affects all of them alike; compare their ratios.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from rlrun import Impala, Training
from rlrun.engine.rollout.inference.served import Served, merged
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.training.running_training import RunningTraining

PONG = {"id": "ale_py:ALE/Pong-v5", "preset": "atari"}
LSTM = {"core": "lstm", "core_width": 256, "activation": "relu", "hiddens": [256]}


def assembled(workers: int, envs: int, inference: dict[str, Any]) -> RunningTraining:
    """Creates an IMPALA training on Pong whose workers have started and received weights."""
    algorithm = Impala(
        num_workers=workers,
        num_envs_per_worker=envs,
        rollout_fragment_length=20,
        normalize_rewards=False,
        num_cpus_per_worker=0.5,
        model=LSTM,
        inference=inference,
    )
    running = Training(PONG, algorithm).description.assembled(print, "eager", {})
    running.workers.started.order(Orders({own.name: own.weights() for own in running.trainees}))
    return running


def collect(running: RunningTraining, fragments: int) -> tuple[float, Any]:
    """Collects fragments; returns the env steps per second, and the server's request counts."""
    workers = running.workers
    arrived: list[Rollout] = []
    served: list[Served | None] = []
    for worker in workers.indices:
        workers.started.request(worker)
    began = time.perf_counter()
    while len(arrived) < fragments:
        for rollout in workers.started.arrived():
            arrived.append(rollout)
            served.append(rollout.served)
            workers.started.request(rollout.worker_index)
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    outstanding = len(workers.indices)
    while outstanding:
        outstanding -= len(workers.started.arrived())
        time.sleep(0.005)
    return sum(rollout.env_steps for rollout in arrived) / seconds, merged([own for own in served if own is not None])


def policy_ms(running: RunningTraining, rows: int, repeats: int) -> float:
    """CPU milliseconds of a forward pass with the given number of rows, in one thread."""
    behavior = running.trainee.policy.behavior()
    behavior.load(running.trainee.weights())
    observations = np.zeros((rows, 4, 84, 84), np.uint8)
    state = np.zeros((rows, behavior.network.state_size), np.float32)
    noise = np.zeros((rows, behavior.noise_source.noise(np.random.default_rng(0), 1, rows).shape[-1]), np.float32)
    spent = []
    for _ in range(repeats):
        began = time.thread_time()
        behavior.network({"obs": observations}, state, None, noise)
        spent.append(time.thread_time() - began)
    return 1000 * float(np.median(spent))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fragments", type=int, default=6)
    given = parser.parse_args()
    import ray
    import torch

    torch.set_num_threads(1)
    num_cpus = 3 * (given.workers + 1)  # workers for all settings run at the same time
    ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, logging_level="ERROR")
    settings: dict[str, dict[str, Any]] = {
        "worker": {},
        "trial, 1 group": {"at": "trial", "groups": 1},
        "trial, 2 groups": {"at": "trial", "groups": 2},
    }
    trainings = {name: assembled(given.workers, given.envs, inference) for name, inference in settings.items()}
    first = trainings["worker"]
    for rows in (1, 4, 8, 16, 32):
        print(f"forward pass of {rows} rows: {policy_ms(first, rows, 15):.2f} CPU ms", flush=True)
    for name, running in trainings.items():
        collect(running, given.workers)  # finishes the startup
        print(f"started: {name}", flush=True)
    speeds: dict[str, list[float]] = {name: [] for name in trainings}
    for _ in range(given.rounds):
        for name, running in trainings.items():
            speed, served = collect(running, given.fragments)
            speeds[name].append(speed)
            if served is not None:
                each = [
                    1000 * part / served.requests for part in (served.queue_s, served.compute_s, served.round_trip_s)
                ]
                print(
                    f"{name}: {speed:.0f} env steps/s, batches of {served.rows / served.requests:.1f} rows; queue, "
                    f"compute, round trip: {each[0]:.1f}, {each[1]:.1f}, {each[2]:.1f} ms",
                    flush=True,
                )
            else:
                print(f"{name}: {speed:.0f} env steps/s", flush=True)
    own = np.array(speeds["worker"])
    for name, found in speeds.items():
        ratios = np.array(found) / own
        print(f"{name}: median {np.median(found):.0f} env steps/s, ratio to worker {np.median(ratios):.2f}")
    for running in trainings.values():
        running.workers.close()


if __name__ == "__main__":
    main()
