"""Products and updates have the same bits with vectors of any width, and on another architecture."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.array_utils import byte_bounds

from rlrun import DQN, PPO, SAC, Training
from rlrun.engine.kernels.library import FLAGS, SOURCE, compiler, library, processor
from rlrun.engine.learner.executors.c_update import CUpdate
from tests.unit.engine.kernels.test_products import needs_fma, product

WIDTHS = {"no vectors": ("-mfma",), "AVX2": ("-mavx2", "-mfma"), "AVX-512": ("-mavx512f", "-mfma")}
"""Compiler flags for x86 processors by the width of their vectors."""


UPDATES = int(os.environ.get("RECORDED_UPDATES", "5"))
"""Number of compared updates; `make test-kernels` compares 200."""

CROSS_COMPILER, EMULATOR, SYSTEM = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"

FEW_STEPS: dict[str, Any] = {"num_envs_per_worker": 4, "min_env_steps_per_iteration": 0}
REPLAYED = {**FEW_STEPS, "learning_starts": 64, "minibatch_size": 64}
ALGORITHMS: dict[str, Any] = {
    "PPO": ("CartPole-v1", PPO(**FEW_STEPS, train_batch_size=128, minibatch_size=64)),
    "PPO with an LSTM": (
        "CartPole-v1",
        PPO(**FEW_STEPS, train_batch_size=128, minibatch_size=64, seq_len=16, model={"core": "lstm"}),
    ),
    "SAC": ("Pendulum-v1", SAC(**REPLAYED, model={"hiddens": [64, 64]})),
    "DQN": ("CartPole-v1", DQN(**REPLAYED, model={"hiddens": [64, 64]})),
}


class RecordedUpdate:
    """An update as memory and steps, which can be run with other kernels or on another machine."""

    def __init__(self, update: CUpdate) -> None:
        assert not update.uses_blas
        self.table = update.steps._table.copy()
        self.kernels = [name_of(address) for address in self.table["kernel"].tolist()]
        self.blocks = merged(byte_bounds(array) for array in arrays_in([update.bound.calls, update.steps._kept]))
        self.contents = [ctypes.string_at(start, end - start) for start, end in self.blocks]

    def run(self, kernels: ctypes.CDLL) -> bytes:
        """Runs the update with other kernels, and returns the memory afterwards."""
        blocks = [np.frombuffer(content, np.uint8).copy() for content in self.contents]
        table = self.table.copy()
        for step, name in zip(table, self.kernels, strict=True):
            step["kernel"] = ctypes.cast(getattr(kernels, name), ctypes.c_void_p).value
            for k, address in enumerate(step["at"].tolist()):
                for (start, end), block in zip(self.blocks, blocks, strict=True):
                    if start <= address < end:
                        step["at"][k] = block.ctypes.data + address - start
        for _ in range(UPDATES):
            kernels.run_steps(ctypes.c_void_p(table.ctypes.data), ctypes.c_int64(len(table)))
        return b"".join(block.tobytes() for block in blocks)

    def write(self, path: Path) -> None:
        """Writes the file that `run_update.c` reads."""
        parts = [struct.pack("q", len(self.blocks))]
        parts += [struct.pack("qq", start, end - start) for start, end in self.blocks]
        parts += [*self.contents, struct.pack("q", len(self.table))]
        for step, name in zip(self.table, self.kernels, strict=True):
            parts += [struct.pack("32s", name.encode()), step.tobytes()]
        path.write_bytes(b"".join(parts))


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yields the arrays that recorded calls work on."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from arrays_in(each)
    elif hasattr(value, "func"):
        yield from arrays_in([getattr(value.func, "__self__", None), value.args, [*value.keywords.values()]])


def merged(bounds: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns disjoint ranges that cover the given ranges of addresses."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(set(bounds)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def name_of(address: int) -> str:
    """Returns the name of the function at an address."""

    class Found(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("file", "base")] + [
            ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
        ]  # fmt: skip

    found = Found()
    assert ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(found))
    assert found.name is not None
    return found.name.decode()


def is_usable(instructions: tuple[str, ...]) -> bool:
    """Whether this processor has the instructions of compiler flags."""
    return {flag.removeprefix("-m") for flag in instructions} <= set(processor().split())


def built_for(instructions: tuple[str, ...], path: Path) -> ctypes.CDLL:
    """Compiles the kernels for other instruction sets than this processor's widest."""
    flags = [flag for flag in FLAGS if flag != "-march=native"]
    subprocess.run([compiler(), *flags, "-O1", *instructions, str(SOURCE), "-o", str(path), "-lm"], check=True)
    return ctypes.CDLL(str(path))


@cache
def recorded(algorithm: str) -> list[RecordedUpdate]:
    """Returns the updates of an algorithm after the first iterations of its training."""
    env, settings = ALGORITHMS[algorithm]
    with Training(env, settings, seed=0) as training:
        for _ in range(20):
            training.step()
        made = training.running.trainee.learner.updates.execution._made.values()
        assert made
        return [RecordedUpdate(update) for update in made]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("builds")
    usable = [flags for flags in WIDTHS.values() if is_usable(flags)]
    return [built_for(flags, folder / f"{index}.so") for index, flags in enumerate(usable)]


@needs_fma
def test_processors_with_vectors_of_any_width_compute_the_same_bits(builds: list[ctypes.CDLL]) -> None:
    random = np.random.default_rng(0)
    for m, k, n in ((64, 64, 64), (64, 23, 6), (33, 300, 49), (256, 64, 2), (9, 17, 100)):
        a, b = (random.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
        turned = np.ascontiguousarray(b.T).T
        assert len({product(each, a, x).tobytes() for each in [library(), *builds] for x in (b, turned)}) == 1


@needs_fma
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_updates_have_the_same_bits_with_vectors_of_any_width(algorithm: str, builds: list[ctypes.CDLL]) -> None:
    for update in recorded(algorithm):
        after = update.run(library())
        assert after != b"".join(update.contents)
        assert all(update.run(build) == after for build in builds)


@needs_fma
@pytest.mark.skipif(
    "RECORDED_UPDATES" not in os.environ or not (shutil.which(CROSS_COMPILER) and shutil.which(EMULATOR)),
    reason="runs in make test-kernels, with a cross compiler and QEMU for aarch64",
)
def test_updates_have_the_same_bits_on_another_architecture(tmp_path: Path) -> None:
    source, program = Path(__file__).with_name("run_update.c"), tmp_path / "run_update"
    flags = ["-O1", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-rdynamic", f"-I{SOURCE.parent}"]
    subprocess.run([CROSS_COMPILER, *flags, str(source), "-o", str(program), "-lm", "-ldl"], check=True)
    for algorithm in ALGORITHMS:
        for update in recorded(algorithm):
            update.write(tmp_path / "update")
            words = [EMULATOR, "-L", SYSTEM, str(program), str(tmp_path / "update"), str(UPDATES)]
            assert subprocess.run(words, check=True, capture_output=True).stdout == update.run(library())
