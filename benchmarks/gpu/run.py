"""Measures a learner's minibatch updates per second on a GPU: eager, with CUDA graphs, in bfloat16, and on the CPU.

    python -m benchmarks.gpu.run [--only ppo_small,ppo_frames,...] [--json FILE]

Each case takes one batch from an env and learns from it repeatedly; the batch is transferred to the GPU each time. The
CPU uses as many threads as `--threads` says. PPO without memory is compared with updates written directly in PyTorch
(`plain.py`), the fastest of which torch compiles into CUDA graphs. Their minibatches are already on the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import rlrun
from benchmarks.gpu.plain import plain_agent, plain_update
from benchmarks.peers import parser_of, print_row, write_json
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.learner import last_batch_of
from rlrun.engine.learner.local_learner import LocalLearner


@dataclass(frozen=True)
class Case:
    """What to learn: the env, the algorithm, and its settings.

    Attributes:
        algorithm: Class of the algorithm.
        env: The env.
        config: Settings of the algorithm.
        plain_shape: Shape of an observation for the comparison with plain PyTorch; empty if there is none.
    """

    algorithm: str
    env: Any
    config: Mapping[str, Any]
    plain_shape: tuple[int, ...] = ()


PPO = {"num_envs_per_worker": 8, "min_env_steps_per_iteration": 0, "num_epochs": 1, "max_grad_norm": 0.5}
REPLAY = {"num_envs_per_worker": 1, "learning_starts": 1024, "min_env_steps_per_iteration": 1040}
PONG = "ALE/Pong-v5"
CASES = {
    "ppo_small": Case("PPO", "CartPole-v1", {**PPO, "train_batch_size": 2048, "minibatch_size": 64}, (4,)),
    "ppo_wide": Case(
        "PPO",
        "CartPole-v1",
        {**PPO, "train_batch_size": 16384, "minibatch_size": 4096, "model": {"hiddens": [512, 512]}},
        (4,),
    ),
    "ppo_lstm": Case(
        "PPO",
        "CartPole-v1",
        {
            **PPO,
            "train_batch_size": 2048,
            "minibatch_size": 512,
            "seq_len": 32,
            "model": {"hiddens": [64], "core": "lstm", "core_width": 64},
        },
    ),
    "ppo_frames": Case("PPO", PONG, {**PPO, "train_batch_size": 1024, "minibatch_size": 256}, (4, 84, 84)),
    "sac": Case("SAC", "Pendulum-v1", {**REPLAY, "minibatch_size": 256, "model": {"hiddens": [256, 256]}}),
    "dqn_frames": Case("DQN", PONG, {**REPLAY, "minibatch_size": 32}),
    "dreamer_micro": Case("Dreamer", "CartPole-v1", {**REPLAY, "minibatch_size": 16, "model": {"size": "micro"}}),
    "dreamer_xs": Case("Dreamer", "CartPole-v1", {**REPLAY, "minibatch_size": 16, "model": {"size": "xs"}}),
}

WAYS: Mapping[str, tuple[str, UpdateExecutor, Mapping[str, Any]]] = {
    "CPU": ("cpu", "c", {}),
    "GPU, eager": ("cuda", "eager", {"num_gpus": 1}),
    "GPU, graph": ("cuda", "cuda_graph", {"num_gpus": 1}),
    "GPU, graph, bfloat16": ("cuda", "cuda_graph", {"num_gpus": 1, "precision": "bfloat16"}),
}


def main() -> None:
    """Prints the minibatch updates per second."""
    parser = parser_of(str(__doc__), CASES)
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each measurement")
    parser.add_argument("--threads", type=int, default=8, help="number of CPU threads")
    chosen = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; updates per second")
    print_row("", *WAYS, "plain, eager", "compiled", "compiled, bfloat16", width=22, name_width=16)
    found = {name: measured_case(CASES[name], chosen.seconds, chosen.threads) for name in chosen.only}
    for name, own in found.items():
        print_row(name, *(f"{rate:,.0f}" for rate in own.values()), width=22, name_width=16)
    write_json(chosen.json, found)


def measured_case(case: Case, seconds: float, threads: int) -> dict[str, float]:
    """Returns the updates per second for each way of running the case."""
    found = {}
    for way, (device, executor, settings) in WAYS.items():
        kind = getattr(rlrun, case.algorithm)
        if settings.keys() & kind.Config.refused:  # for example, DreamerV3 does not support bfloat16
            continue
        with rlrun.Training(case.env, kind(**case.config, **settings), seed=0) as training:
            training.update_executor = executor
            training.step()
            (trainee,) = training.running.trainees
            learner = trainee.learner
            assert isinstance(learner, LocalLearner)
            batch = last_batch_of(learner)
            assert batch is not None
            assert learner.device.type == device
            torch.set_num_threads(threads)
            update, updates = one_call(learner, batch, trainee.clock.scheduled(), case.config)
            found[way] = updates * calls_per_second(update, seconds)
    if case.plain_shape:
        found |= plain_rates(case, seconds)
    return found


def one_call(
    learner: LocalLearner, batch: SampleBatch, scheduled: Mapping[str, float], config: Mapping[str, Any]
) -> tuple[Callable[[], object], int]:
    """Returns a function that learns from the batch, and the number of updates per call."""
    size = config["minibatch_size"]
    if "num_epochs" not in config:
        updates = len(batch["valid"]) // size
        return partial(learner.step, batch, scheduled=scheduled, minibatches=updates), updates
    call = partial(learner.learn, batch, num_epochs=1, minibatch_size=size, scheduled=scheduled)
    return call, config["train_batch_size"] // size


def plain_rates(case: Case, seconds: float) -> dict[str, float]:
    """Returns the updates per second of PPO in plain PyTorch."""
    size, frames = case.config["minibatch_size"], len(case.plain_shape) == 3
    shape = (size, *case.plain_shape)
    batch = {
        "obs": torch.randint(255, shape, dtype=torch.uint8, device="cuda") if frames else torch.randn(shape).cuda(),
        "actions": torch.randint(2, (size,)).cuda(),
        **{name: torch.randn(size).cuda() for name in ("logp", "advantages", "value_targets")},
    }
    width = case.config.get("model", {}).get("hiddens", [64])[0]
    found = {}
    for name, compiles, half in (("eager", False, False), ("compiled", True, False), ("bfloat16", True, True)):
        update: Callable[[Mapping[str, Tensor]], Tensor] = plain_update(
            *plain_agent(case.plain_shape, 6 if frames else 2, width), half=half
        )
        if compiles:
            update = torch.compile(update, mode="reduce-overhead")
        found[f"plain, {name}"] = calls_per_second(partial(update, batch), seconds)
    return found


def calls_per_second(call: Callable[[], object], seconds: float) -> float:
    """Returns the number of calls per second, including the work that they queue on the GPU."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    calls, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        calls += 10
    return calls / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
