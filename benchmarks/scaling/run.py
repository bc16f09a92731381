"""Measures what a fragment and a batch cost the driver, and estimates how many workers one driver can serve.

    python -m benchmarks.scaling.run [--only stubs,real] [--workers 1,2,4,...] [--seconds S] [--json FILE]

stubs       1, 2, 4, ... 128 workers without envs deliver fragments of three sizes as fast as they are requested, to
            IMPALA's dataflow without its SGD: it sends weights to each worker that has delivered a fragment, and
            concatenates fragments into batches
real        0, 1 and 2 workers with 1, 8 and 64 envs each sample CartPole through an asynchronous source

A task is a fragment. The driver's CPU time includes all of Ray's threads in its process, and hardly depends on the
number of cores that the workers share. The number of tasks per second does depend on it, because stubs, object store
and driver share the machine. After each batch, the driver sends new weights, as large as those of a network for such
observations.

The benchmark fits a model to these measurements: a batch costs the driver a constant time, plus a time per fragment and
a time per byte. With the rate of a real worker, the model estimates the number of workers that keep one driver fully
busy if it does nothing else. SGD in the driver's process adds to this: the workers get only the time that the learner
leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Measurement, parser_of, print_row, surroundings, write_json
from benchmarks.scaling.stub import ROWS, Fragment, StubConfig, StubWeights
from rlrun.engine.actors.private_ray import prepare_environment, start
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.weights import SendWeights
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.flow.sources.rollouts import AsyncRollouts
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet

PARTS = ("stubs", "real")
FRAGMENTS = {
    "17 numbers": Fragment((17,), "float32", 12, 20_000),
    "frame 84x84": Fragment((1, 84, 84), "uint8", 6, 1_700_000),
    "4 frames 84x84": Fragment((4, 84, 84), "uint8", 6, 1_700_000),
}
"""Sizes of fragments: MuJoCo's HalfCheetah, and Atari without and with stacked frames."""

FRAGMENTS_PER_BATCH = (8, 32)
MOST_BYTES_OF_A_BATCH = 128 * 2**20
IN_FLIGHT = 2
BYTES_OF_A_PROCESS = 90 * 2**20
"""Memory of a stub worker's process, with a margin."""
BYTES_LEFT_FREE = 2 * 2**30
STEPS_OF_A_FRAGMENT = 2048
FRAGMENT_LENGTHS = (256, 1024, 4096)
CARTPOLE = "CartPole-v1"


def main() -> None:
    """Measures the parts that the command line names, and fits the model."""
    parser = parser_of(str(__doc__), PARTS)
    parser.add_argument("--workers", default="1,2,4,8,16,32,64,128", help="numbers of stub workers")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each measurement")
    options = parser.parse_args()
    parts, room = options.only, workers_with_room()
    numbers = [number for number in numbers_in(options.workers) if number <= room]
    free = f"{memory_available() / 2**30:.1f} GiB of memory free: room for {room} stub workers"
    how = f"{free}; {IN_FLIGHT} requests in flight for each worker"
    found: dict[str, Any] = {"about": surroundings(("ray", "gymnasium", "numpy"), how=how)}
    prepare_environment(loopback=True)
    start(max([*numbers, os.cpu_count() or 1]), object_store_bytes(), quiet=True)
    if "stubs" in parts:
        found["stubs"] = stubs(numbers, options.seconds, FRAGMENTS_PER_BATCH)
    if "real" in parts:
        found["real"] = real(options.seconds)
    found["model"] = model(found)
    write_json(options.json, found)


def numbers_in(text: str) -> list[int]:
    """Returns the distinct numbers in a comma-separated list, in ascending order."""
    return sorted({int(part) for part in text.split(",")})


def memory_available() -> int:
    """Returns the number of bytes of memory available to programs."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def workers_with_room() -> int:
    """Returns the number of stub workers that fit into memory, next to the object store."""
    return (memory_available() - BYTES_LEFT_FREE - object_store_bytes()) // BYTES_OF_A_PROCESS


def object_store_bytes() -> int:
    """Returns a size for Ray's object store: a sixth of the memory; fragments wait if it is full."""
    return memory_available() // 6


# --- Stub workers


@dataclass
class StubTrainee:
    """Takes the place of the trainee and of its learner, and learns nothing.

    Attributes:
        fragment: Sizes of the fragments that the workers deliver.
        workers: The workers.
        weights_version: Number of batches so far.
    """

    fragment: Fragment
    workers: PolicyWorkers
    weights_version: int = 0

    @property
    def learner(self) -> StubTrainee:
        """Returns itself, because it knows the version of the weights."""
        return self

    def weights(self) -> Weights:
        """Returns new weights of the right size."""
        flat = np.zeros(self.fragment.parameters, np.float32)
        return StubWeights(self.weights_version, flat, fragment=self.fragment)


def stubs(numbers: Sequence[int], seconds: float, per_batch: Sequence[int]) -> list[Measurement]:
    """Measures stub workers: starts all of them once, and uses a subset for each measurement.

    Args:
        numbers: Numbers of workers to measure.
        seconds: Seconds of each measurement.
        per_batch: Numbers of fragments in a batch; only the largest number of workers uses all of them.
    """
    rows = []
    with stub_workers(max(numbers)) as workers:
        idle = idle_share(seconds)
        print(f"\nstub workers: a task is a fragment; not in the cost of a task or batch are the {idle:.1%} of a")
        print("core that the driver's process takes while it does nothing")
        heads = ("KB each", "a batch", "workers", "tasks/s", "MB/s", "CPU us/task", "CPU ms/batch", "share of core")
        print_row("fragments", *heads)
        for name, fragment in FRAGMENTS.items():
            for number in numbers:
                for each in per_batch if number == max(numbers) else per_batch[:1]:
                    if each * fragment.num_bytes() <= MOST_BYTES_OF_A_BATCH:
                        case = Case(name, number, each)
                        rows.append({**asdict(case), **measured_stubs(workers, fragment, case, seconds, idle)})
                        print_stubs(rows[-1])
    return rows


@dataclass(frozen=True)
class Case:
    """A measurement with stub workers.

    Attributes:
        fragments: Name of the fragments that they deliver.
        workers: Number of workers in use.
        per_batch: Number of fragments in a batch.
    """

    fragments: str
    workers: int
    per_batch: int


@contextmanager
def stub_workers(number: int) -> Iterator[WorkerSet]:
    """Yields stub workers that have all started, and closes them afterwards."""
    workers = WorkerSet(StubConfig(), number, factory="benchmarks.scaling.stub:StubWorker")
    try:
        workers.state()  # returns when all workers have started
        yield workers
    finally:
        workers.close()


def measured_stubs(workers: WorkerSet, fragment: Fragment, case: Case, seconds: float, idle: float) -> Measurement:
    """Measures the dataflow with the first `case.workers` workers; `idle` is the driver's idle share of a core."""
    trainee = StubTrainee(fragment, PolicyWorkers(workers, DEFAULT_POLICY))
    trainee.workers.send(trainee.weights())
    every, workers.indices = workers.indices, workers.indices[: case.workers]
    rollouts: Flow[Any] = Flow(AsyncRollouts(workers, DEFAULT_POLICY, (), IN_FLIGHT))
    send: Any = SendWeights(trainee)  # type: ignore[arg-type]
    flow = rollouts.zip_with_worker().for_each(send).combine(ConcatBatches(case.per_batch * ROWS))

    def pull() -> None:
        next(flow)
        trainee.weights_version += 1

    found = measured(pull, flow, workers, seconds)
    workers.indices = every
    # Waits for the fragments in flight and drops them, so that the next flow starts with none.
    workers.load_state(workers.state())
    tasks = found["env_steps"] / ROWS
    working_s = max(found["driver_cpu_s"] - idle * found["wall_s"], 0.0)
    return {
        **found,
        "bytes": fragment.num_bytes(),
        "tasks_per_s": tasks / found["wall_s"],
        "bytes_per_s": tasks * fragment.num_bytes() / found["wall_s"],
        "driver_idle_share": idle,
        "driver_cpu_s_per_task": working_s / tasks,
        "driver_cpu_s_per_batch": working_s / tasks * case.per_batch,
    }


def idle_share(seconds: float) -> float:
    """Returns the share of a core that Ray's threads in this process use while they have nothing to do."""
    time.sleep(seconds / 4)
    began, cpu = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - began)


def measured(pull: Callable[[], object], flow: Flow[Any], workers: WorkerSet, seconds: float) -> Measurement:
    """Pulls a flow for `seconds`, after a warm-up of a quarter of that time and at least one fragment per worker."""
    began = time.perf_counter()
    warm_steps = workers.counts.env_steps + len(workers.indices) * ROWS
    while time.perf_counter() - began < seconds / 4 or workers.counts.env_steps < warm_steps:
        pull()
    steps, sampled, waited = workers.counts.env_steps, workers.counts.sample_s, flow.waited_s
    began, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds or workers.counts.env_steps == steps:
        pull()
    workers.counts.take_episodes()
    wall = time.perf_counter() - began
    return {
        "wall_s": wall,
        "driver_cpu_s": time.process_time() - cpu,
        "driver_waits_share": (flow.waited_s - waited) / wall,
        "env_steps": workers.counts.env_steps - steps,
        "sample_s": workers.counts.sample_s - sampled,
    }


def print_stubs(row: Measurement) -> None:
    """Prints a measurement with stub workers."""
    costs = f"{row['driver_cpu_s_per_task'] * 1e6:.0f}", f"{row['driver_cpu_s_per_batch'] * 1e3:.2f}"
    rates = f"{row['tasks_per_s']:.0f}", f"{row['bytes_per_s'] / 1e6:.1f}"
    size, share = f"{row['bytes'] / 1e3:.1f}", f"{row['driver_cpu_s'] / row['wall_s']:.0%}"
    print_row(row["fragments"], size, row["per_batch"], row["workers"], *rates, *costs, share)


# --- Real workers


def real(seconds: float) -> list[Measurement]:
    """Measures workers that sample CartPole with a dense 64 x 64 network."""
    env = EnvConfig(id=CARTPOLE)
    settings = AlgorithmConfig(model=ModelConfig(hiddens=(64, 64)))
    policy = ActorCriticPolicy(spaces_of(env), settings, seed=0)
    weights = {DEFAULT_POLICY: Weights(0, policy.parameters.gather(policy.module).numpy())}
    print(f"\n{CARTPOLE} through an asynchronous source, fragments of {STEPS_OF_A_FRAGMENT} steps")
    print_row("workers", "envs each", "env steps/s", "a worker at work", "driver CPU us/task", width=20)
    rows = []
    for number in (0, 1, 2):
        for envs in (1, 8, 64):
            config = WorkerConfig(
                env=env,
                num_envs=envs,
                fragment_length=STEPS_OF_A_FRAGMENT // envs,
                seed=0,
                behaviors={DEFAULT_POLICY: policy.behavior()},
                rewards={DEFAULT_POLICY: RewardSettings(0.99)},
            )
            workers = WorkerSet(config, number)
            workers.started.order(Orders(weights))
            rows.append({"workers": number, "envs": envs, **measured_sampling(workers, seconds)})
            workers.close()
            print_real(rows[-1])
    return rows


def measured_sampling(workers: WorkerSet, seconds: float) -> Measurement:
    """Measures workers that sample, through an asynchronous source."""
    flow = PolicyWorkers(workers, DEFAULT_POLICY).rollouts(mode="async", in_flight=IN_FLIGHT)
    batch = flow.take(1)[0]
    found = measured(lambda: next(flow), flow, workers, seconds)
    return {
        **found,
        "bytes": sum(column.nbytes for column in batch.values()),
        "env_steps_per_s": found["env_steps"] / found["wall_s"],
        "env_steps_per_s_of_a_worker": found["env_steps"] / found["sample_s"],
        "driver_cpu_s_per_task": found["driver_cpu_s"] / (found["env_steps"] / STEPS_OF_A_FRAGMENT),
    }


def print_real(row: Measurement) -> None:
    """Prints a measurement with workers that sample."""
    rates = f"{row['env_steps_per_s']:,.0f}", f"{row['env_steps_per_s_of_a_worker']:,.0f}"
    cost = f"{row['driver_cpu_s_per_task'] * 1e6:.0f}" if row["workers"] else "samples itself"
    print_row(str(row["workers"]), row["envs"], *rates, cost, width=20)


# --- The model


def model(found: dict[str, Any]) -> Measurement:
    """Fits the driver's cost per batch, and estimates how many workers the driver can serve."""
    rows = [row for row in found.get("stubs", ()) if row["workers"] > 1]
    if len({row["bytes"] for row in rows}) < 2:
        return {}
    print("\nmodel: CPU of the driver for a batch")
    fit = fitted(rows)
    line = f"{fit['per_batch_s'] * 1e6:.0f} us + {fit['per_fragment_s'] * 1e6:.0f} us per fragment"
    line += f" + {fit['per_byte_s'] * 1e9:.3f} ns per byte"
    errors = f"off by {fit['error_median']:.0%} (median), {fit['error_max']:.0%} at most"
    print(f"{line}; {errors}", flush=True)
    sampled = [row for row in found.get("real", ()) if row["workers"]]
    if not sampled:
        return {"fit": fit}
    fastest = max(sampled, key=lambda row: float(row["env_steps_per_s_of_a_worker"]))
    return {"fit": fit, "saturation": saturation(fit, fastest)}


def fitted(rows: Sequence[Measurement]) -> Measurement:
    """Fits the cost of a batch by least squares of the relative errors; no coefficient is negative."""
    each = np.array([row["per_batch"] for row in rows], np.float64)
    size = np.array([row["bytes"] for row in rows], np.float64)
    cost = np.array([row["driver_cpu_s_per_batch"] for row in rows])
    columns = {"per_batch_s": np.ones(len(rows)), "per_fragment_s": each, "per_byte_s": each * size}
    while True:
        table = np.stack([column / cost for column in columns.values()], axis=1)
        solved = dict(zip(columns, np.linalg.lstsq(table, np.ones(len(rows)), rcond=None)[0], strict=True))
        least = min(solved, key=lambda name: float(solved[name]))
        if solved[least] >= 0:
            break
        del columns[least]
    errors = np.abs(table @ np.array(list(solved.values())) - 1)
    return {
        **dict.fromkeys(("per_batch_s", "per_fragment_s", "per_byte_s"), 0.0),
        **{name: float(value) for name, value in solved.items()},
        "error_median": float(np.median(errors)),
        "error_max": float(errors.max()),
    }


def saturation(fit: Measurement, worker: Measurement) -> list[Measurement]:
    """Prints and returns how many workers saturate the driver, for several fragment lengths and batch sizes."""
    rate = worker["env_steps_per_s_of_a_worker"]
    bytes_per_step = worker["bytes"] / STEPS_OF_A_FRAGMENT
    made = f"{rate:,.0f} steps/s of {bytes_per_step:.0f} bytes"
    print(f"\na CartPole worker with {worker['envs']} envs and a core of its own makes {made};")
    print("a driver with a core of its own, and no SGD in its process, is busy all the time with so many of them:")
    print_row("steps in a fragment", "fragments in a batch", "fragments/s of one", "workers", width=22)
    rows = []
    for steps in FRAGMENT_LENGTHS:
        for each in FRAGMENTS_PER_BATCH:
            row: Measurement = {"steps": steps, "per_batch": each, "fragments_per_s_of_a_worker": rate / steps}
            per_fragment = fit["per_fragment_s"] + fit["per_byte_s"] * steps * bytes_per_step
            row["workers"] = 1 / ((fit["per_batch_s"] / each + per_fragment) * row["fragments_per_s_of_a_worker"])
            rows.append(row)
            print_row(str(steps), each, f"{rate / steps:.1f}", f"{row['workers']:,.0f}", width=22)
    return rows


if __name__ == "__main__":
    main()
