"""Verification of a spec: one seed is trained again, and digests of its results are compared with published ones.

The digests of `ppo.yaml` are in `ppo.digest.json`, next to it: one for each result row (without its timings) and one
for the final weights, together with the spec, code, packages and machine on which they may depend.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.checkpoint.durable import write_file
from rlrun.engine.checkpoint.format import Content, read_checkpoint
from rlrun.engine.checkpoint.manifest import rlrun_version
from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.messages.errors import SpecError, TrainingFailed, UsageError
from rlrun.engine.settings.config import ConfigModel, NonNegativeInt, PositiveInt
from rlrun.experiments.launch.run import run
from rlrun.experiments.runs.events import Watcher
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.trial.results import Row, is_timing, read_results

SUFFIX = ".digest.json"
"""Suffix of the file with a spec's digests, in place of the spec's own suffix."""

FORMAT = 1
LENGTH = 16
"""Hexadecimal digits of a digest: 64 bits."""

ENV_PACKAGES = ("gymnasium", "ale_py", "Box2D", "mujoco", "minigrid", "pettingzoo", "mpe2", "lbforaging", "popgym")
"""Modules of packages whose envs a spec may train in; they count if the run has imported them."""

EXECUTORS = {
    "c": "C kernels",
    "numpy": "NumPy",
    "eager": "torch, operation by operation",
    "compiled": "torch's compiler",
    "cuda_graph": "CUDA graphs",
}
"""Ways to compute updates, in words."""

SETTINGS = ("algorithm", "stop", "evaluation", "hooks")
"""Keys of an experiment, besides its template, that affect its results."""


class Digests(ConfigModel):
    """Digests of the results of one seed of an experiment."""

    format: PositiveInt
    """Version of the format."""
    seed: NonNegativeInt
    """Root seed."""
    rows: tuple[str, ...]
    """Digest of each result row without its timings."""
    weights: str
    """Digest of the final weights of all policies."""
    made_with: dict[str, str]
    """Spec, code, packages and machine on which the numbers may depend, the most likely cause of a difference first."""


@dataclass(frozen=True)
class Verification:
    """Comparison of the results of a retrained seed with published ones.

    Attributes:
        published: The published digests.
        found: Digests of the results of the retrained seed.
        rows: Result rows of the retrained seed.
    """

    published: Digests
    found: Digests
    rows: Sequence[Row]

    @property
    def first_differing_row(self) -> int | None:
        """Index of the first row that differs or that only one of the results has; None if there is none."""
        pairs = zip_longest(self.published.rows, self.found.rows)
        return next((index for index, (there, here) in enumerate(pairs) if there != here), None)

    @property
    def is_equal(self) -> bool:
        """Whether all rows and the final weights are equal."""
        return self.first_differing_row is None and self.published.weights == self.found.weights

    @property
    def causes(self) -> list[str]:
        """Likely causes of a difference, such as different code, packages or machines; the most likely first."""
        there, here = self.published.made_with, self.found.made_with
        return [
            f"{name}: {here.get(name, 'none')} here, {there.get(name, 'none')} there"
            for name in dict.fromkeys([*here, *there])
            if here.get(name) != there.get(name)
        ]


def digest_file(spec: Path) -> Path:
    """Path of the file with the digests of a spec."""
    return spec.with_suffix(SUFFIX)


def read_digests(path: Path) -> Digests:
    """Reads the published digests of a spec.

    Raises:
        UsageError: The file is missing, not a file of digests, or was written by a newer rlrun.
    """
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"{path}: does not exist, so there is nothing to compare with; rlrun verify --write trains one seed and "
            "writes it"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path}: not a file of digests: {error}") from error
    if isinstance(data, Mapping) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise UsageError(f"{path}: written by a newer rlrun; update rlrun")
    try:
        return Digests.parse(data)
    except SpecError as error:
        raise UsageError(f"{path}: not a file of digests:\n{error}") from error


def write_digests(path: Path, digests: Digests) -> None:
    """Writes the digests of a spec, atomically."""
    write_file(path, json.dumps(digests.to_data(), indent=1).encode() + b"\n")


def retrained(
    experiment: Experiment, seed: int, *, runs_dir: Path, watch: Watcher = lambda event: None
) -> tuple[Digests, list[Row]]:
    """Trains one seed of an experiment; returns digests of the results, and the rows.

    Args:
        experiment: The experiment.
        seed: The seed.
        runs_dir: The folder that holds the runs.
        watch: Function called with each event of the run.

    Raises:
        UsageError: The experiment has several trials with this seed, or starts from the weights of another experiment.
        TrainingFailed: Training did not finish.
    """
    alone = experiment.replace(seeds=(seed,))
    if alone.searches or alone.num_trials != 1 or alone.begins is not None:
        raise UsageError(
            f"{experiment.name}: only an experiment with one trial for each seed can be verified, without a search and "
            "without earlier stages"
        )
    (trial,) = run([alone], runs_dir=runs_dir, watch=watch)
    if not is_complete(trial.status) or trial.checkpoint is None:
        raise TrainingFailed(trial.error or f"{trial.directory}: the training did not finish")
    rows, content = read_results(trial.directory), read_checkpoint(trial.checkpoint)
    found = Digests(
        format=FORMAT,
        seed=seed,
        rows=tuple(map(row_digest, rows)),
        weights=weights_digest(content),
        made_with=dict(_surroundings(alone, trial, content)),
    )
    return found, rows


def row_digest(row: Mapping[str, Any]) -> str:
    """Digest of a result row without its timings, as JSON with sorted keys and the shortest notation of each float.

    Examples:
        >>> row_digest({"env_steps": 2, "time_total_s": 0.5}) == row_digest({"env_steps": 2, "time_total_s": 0.7})
        True
    """
    kept = {name: value for name, value in row.items() if not is_timing(name)}
    return _digest([json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()])


def settings_digest(experiment: Experiment) -> str:
    """Digest of the settings that affect an experiment's results, apart from its seeds."""
    data = experiment.to_data()
    settings = {**experiment.template, **{name: data[name] for name in SETTINGS}}
    return _digest([json.dumps(settings, sort_keys=True).encode()])


def weights_digest(content: Content) -> str:
    """Digest of all policies' weights in a checkpoint: names, shapes and little-endian numbers, sorted by name."""
    return _digest(
        part
        for stem in sorted(content.tensors)
        if stem.startswith("policies/")
        for name, tensor in sorted(content.tensors[stem].items())
        for part in (f"{stem} {name} {tensor.shape}\n".encode(), np.ascontiguousarray(tensor, "<f4").tobytes())
    )


def _digest(parts: Sequence[bytes] | Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:LENGTH]


def _surroundings(experiment: Experiment, trial: TrialResult, content: Content) -> Iterator[tuple[str, str]]:
    """Yields everything that a trial's numbers may depend on, by name; the most likely cause of a difference first."""
    yield "spec", settings_digest(experiment)
    yield "updates", updates_in_words(content.manifest)
    yield "rlrun", f"{rlrun_version()}, code {_code_digest()}"
    yield "envs", ", ".join(f"{name} {_version(name)}" for name in ENV_PACKAGES if name in sys.modules)
    yield "NumPy", np.__version__
    yield "Python", platform.python_version()
    yield "torch", _version("torch")
    yield "machine", f"{platform.machine()}, {' '.join(platform.libc_ver())}"


def updates_in_words(manifest: Mapping[str, Any]) -> str:
    """Describes, from a checkpoint's manifest, how a training run on this machine computed its updates.

    If the rounding of the updates depends on the processor, the description includes the reason.
    """
    chosen = manifest["update_executor"]
    reason = why_no_library() if chosen == "numpy" else manifest.get("depends_on_processor", "")
    return f"{EXECUTORS[chosen]}{f', {reason}' if reason else ''}"


def _version(module: str) -> str:
    try:
        return version(module)
    except PackageNotFoundError:
        return "unknown"


def _code_digest() -> str:
    """Digest of rlrun's own code, Python and C."""
    package = Path(__file__).resolve().parents[1]
    parts = ((name.encode(), (package / name).read_bytes()) for name in code_files(package))
    return _digest(itertools.chain.from_iterable(parts))


def code_files(package: Path) -> list[str]:
    """Paths of the Python and C files in rlrun's folder, without `examples/`, which a checkout only links to."""
    files = sorted(path.relative_to(package) for pattern in ("*.py", "*.c") for path in package.rglob(pattern))
    return [str(path) for path in files if path.parts[0] != "examples"]
