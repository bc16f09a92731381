"""Import of a Stable-Baselines3 policy as a run with one checkpoint, as if it had been trained by rlrun."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from rlrun.bridges.translation.entry import TranslatedEntry, Untranslatable, nested
from rlrun.bridges.translation.foreign_settings import defaults_of
from rlrun.bridges.translation.meanings import Impact, SettingOrigin
from rlrun.bridges.translation.old_envs import present_env
from rlrun.bridges.translation.sb3_networks import NamedParameter, Sb3Policy, sb3_policy
from rlrun.bridges.translation.sb3_settings import ATARI_WRAPPER
from rlrun.bridges.translation.sb3_zip import Sb3Zip, read_sb3_zip
from rlrun.bridges.translation.zoo import VERSION, translate_zoo_entry
from rlrun.engine.checkpoint.durable import remove_directory
from rlrun.engine.checkpoint.format import Content
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.policy.action_spaces.box import BoxScale
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.running_training import RunningTraining
from rlrun.engine.training.save import saved_state
from rlrun.engine.training.save.sections import section
from rlrun.experiments.launch.checks import check_name
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.trial_loop import TrialLoop

TOLERANCE = 1e-5
"""Upper bound of the difference between SB3's and rlrun's normalized observations, relative for values above 1."""

MOST_BYTES = 2**28
"""Maximum unpacked size of the npz file with the statistics of `VecNormalize`, in bytes."""

_NAMES = ("mean", "var", "count", "clip_obs", "epsilon")

LINES = """\
import pickle, numpy as np
with open({source!r}, "rb") as file:
    norm = pickle.load(file)
rms = norm.obs_rms
np.savez({target!r}, mean=rms.mean, var=rms.var, count=rms.count, clip_obs=norm.clip_obs, epsilon=norm.epsilon)"""
"""Python program, for a machine with SB3, that converts a pickled `VecNormalize` to an npz file."""


@dataclass(frozen=True)
class Imported:
    """Result of importing a Stable-Baselines3 policy.

    Attributes:
        directory: Directory of the run.
        algorithm: Name of the algorithm.
        env: Id of the env.
        spaces: Observation and action space of the policy.
        remarks: Differences between training in Stable-Baselines3 and in rlrun, one sentence each.
    """

    directory: Path
    algorithm: str
    env: str
    spaces: Spaces
    remarks: tuple[str, ...]


def import_sb3(
    path: Path,
    env: str,
    *,
    runs_dir: Path,
    algorithm: str | None = None,
    normalization: Path | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
) -> Imported:
    """Imports a policy saved by Stable-Baselines3; nothing in the file is executed.

    Args:
        path: The zip file that `model.save` wrote.
        env: Id of the policy's env.
        runs_dir: The folder that holds the runs.
        algorithm: Name of the algorithm; None to infer it from the parameter names.
        normalization: File with the statistics of `VecNormalize`; None if the policy has none.
        overrides: Strings ``path=value`` that override the run's spec, such as ``env.kwargs.size=8``.
        name: Name of the run; None to derive it from env and algorithm.

    Raises:
        UsageError: The file cannot be read, or the policy does not fit the env or has no counterpart in rlrun.
    """
    file = read_sb3_zip(path)
    policy = sb3_policy(file, algorithm)
    written = _entry(file, policy, env)
    written.put("config.normalize_observations", normalization is not None, ())
    title = name or re.sub(r"[^A-Za-z0-9.]+", "-", f"{env}-{policy.algorithm}".lower()).strip("-.")
    trial = _only_trial(_experiment(title, written, overrides))
    (spaces,) = Description(trial.env, trial.learns, trial.seed).spaces().values()
    encoding = _encoding(spaces.observation, policy, is_normalized=normalization is not None)
    if encoding:
        written.put("config.model.observations", {"": encoding}, ())
    if policy.sees_image:
        written.put("config.model.conv", "nature", ())
    experiment = _experiment(title, written, overrides)
    if name is not None:
        check_name(name, [experiment])
    trial = _only_trial(experiment)
    run = RunDirectory.create(runs_dir, title, experiment, [trial], "local")
    try:
        _write_checkpoint(run, trial, file, policy, normalization)
    except BaseException:
        remove_directory(run.path)
        raise
    remarks = (f"{remark.key}: {remark.text}" for remark in written.remarks if remark.impact is not Impact.NONE)
    return Imported(run.path, trial.algorithm, trial.env.id, spaces, tuple(remarks))


def _entry(file: Sb3Zip, policy: Sb3Policy, env: str) -> TranslatedEntry:
    """Spec entry with the algorithm's settings from the file, and with the networks that match its parameters."""
    settings = written_settings(file, policy.algorithm)
    if policy.sees_image and present_env(env).is_atari:
        settings["env_wrapper"] = ATARI_WRAPPER
    try:
        entry = translate_zoo_entry(settings, env, policy.algorithm, env)
    except Untranslatable as refusal:
        raise UsageError(f"{file.path}: {'.'.join(map(str, refusal.location))}: {refusal}") from None
    for setting, value in policy.settings.items():
        entry.put(f"config.{setting}", value, ())
    return entry


def _experiment(name: str, entry: TranslatedEntry, overrides: Sequence[str]) -> Experiment:
    return parse_experiments({name: nested(entry.values)}, overrides)[0]


def _only_trial(experiment: Experiment) -> TrialSpec:
    trials = experiment.trials()
    if len(trials) != 1 or trials[0].needs_ray or trials[0].env.has_many_agents:
        raise UsageError("an imported policy must be a single trial in this process, in a single-agent env")
    return trials[0]


def _encoding(space: Space[Any], policy: Sb3Policy, *, is_normalized: bool) -> dict[str, Any]:
    """Settings with which the network encodes an observation as SB3's does; {} if it does so by default.

    Raises:
        UsageError: SB3's preprocessing of such observations has no counterpart.
    """
    if isinstance(space, Discrete) and not policy.sees_image:
        return {}
    if not isinstance(space, Box):
        raise UsageError(f"policies can be imported only for Box or Discrete observations, not {space}")
    is_image = space.dtype == np.uint8 and len(space.shape) == 3 and not space.low.any() and (space.high == 255).all()
    is_float = bool(np.issubdtype(space.dtype, np.floating))
    if not policy.sees_image and not is_image:
        return {"encode_as": "vector", **({} if is_float or is_normalized else {"bounds": [0, 1]})}
    if not policy.sees_image or not is_image or is_normalized:
        how = "an image encoder" if policy.sees_image else "no image encoder"
        raise UsageError(
            f"the policy has {how}{' after VecNormalize' * is_normalized}, but the env's observations are "
            f"{space}: is --env the env in which it was trained?"
        )
    if ObservationLeaf("image", space.shape).channels_last is (np.argmin(space.shape) == 0):
        raise UsageError(f"SB3 and rlrun use different axes of {space} as channels, so the policy cannot be imported")
    return {"encode_as": "image"}


def _write_checkpoint(
    run: RunDirectory, trial: TrialSpec, file: Sb3Zip, policy: Sb3Policy, normalization: Path | None
) -> None:
    """Builds the trial's training, gives it the parameters, and saves it as a trial that was interrupted at once."""
    with run.locked(), TrialLoop(trial, run.path / trial.name) as loop:
        running = loop.training.running
        saved_state.load_weights(running, _content(running, trial, file, policy, normalization))
        loop.save()
        loop.interrupt()


def _content(
    running: RunningTraining, trial: TrialSpec, file: Sb3Zip, policy: Sb3Policy, normalization: Path | None
) -> Content:
    """Parameters and moments of observations, in a checkpoint's format."""
    ((name, branch),) = running.branches.items()
    trainee = branch.trainee
    parameters = trainee.policy.parameters
    own = {part: NamedParameter(array, "") for part, array in parameters.named(trainee.learner.flat()).items()}
    found = _in_units_of_range(policy.online, trainee.spaces.action)
    if "log_alpha" in own:
        found = {"log_alpha": _log_alpha(file) or own["log_alpha"], **found}
    for checked in (found, {**found, **policy.target}):
        _check_fits(checked, own, trainee.spaces, trial, file)
    tensors = {f"policies/{name}": _arrays(found)}
    if policy.target:
        tensors[f"targets/{name}"] = _arrays({**found, **policy.target})
    moments = {} if normalization is None else filter_state(normalization, trainee.policy.leaves)
    return Content({}, {}, tensors, {"trainees": {name: {"filters": section("filters", moments)}}})


def _arrays(parts: Mapping[str, NamedParameter]) -> dict[str, Any]:
    return {name: part.array for name, part in parts.items()}


def _log_alpha(file: Sb3Zip) -> NamedParameter | None:
    """Logarithm of SAC's temperature, learned or constant, [1]."""
    learned, constant = (file.variables.get(name) for name in ("log_ent_coef", "ent_coef_tensor"))
    if learned is None and constant is not None and (constant > 0).all():
        learned = np.log(constant)
    return None if learned is None or learned.size != 1 else NamedParameter(learned.reshape(1), "")


def _in_units_of_range(parts: Mapping[str, NamedParameter], space: Space[Any]) -> dict[str, NamedParameter]:
    """Converts normal distributions from the env's units, as in SB3, to units of half the action range."""
    found = dict(parts)
    if "log_stds" not in parts or not isinstance(space, Box):
        return found
    scale = BoxScale(space)
    weight, bias, log_stds = (parts[part] for part in ("policy_head.weight", "policy_head.bias", "log_stds"))
    if any(part.array.shape[:1] != (scale.size,) for part in (weight, bias, log_stds)) or weight.array.ndim != 2:
        return found  # left unconverted, because the shapes do not match the env
    found["policy_head.weight"] = weight._replace(array=weight.array / scale.half_range[:, None])
    found["policy_head.bias"] = bias._replace(array=(bias.array - scale.middle) / scale.half_range)
    found["log_stds"] = log_stds._replace(array=log_stds.array - np.log(scale.half_range))
    return found


def _check_fits(
    found: Mapping[str, NamedParameter],
    own: Mapping[str, NamedParameter],
    spaces: Spaces,
    trial: TrialSpec,
    file: Sb3Zip,
) -> None:
    """Raises an error if the parameters' shapes differ from those of the policy in the env."""
    where = f"in {trial.env.id}, with observations {spaces.observation} and actions {spaces.action},"
    ask = "is --env the env in which it was trained?"
    for name, part in own.items():
        if name not in found:
            raise UsageError(f"{file.path}: {where} a policy has {name}, which the file lacks: {ask}")
        foreign = found[name]
        if foreign.array.shape != part.array.shape:
            raise UsageError(
                f"{file.path}: {foreign.names} has shape {foreign.array.shape}; {where} it would have "
                f"{part.array.shape}: {ask}"
            )
    if unknown := next((part.names for name, part in found.items() if name not in own), ""):
        raise UsageError(f"{file.path}: {unknown} is not a part of a policy {where} {ask}")


STEPS = 1_000_000
"""Length of a resumed run, in env steps, if the file does not record how long it was to train."""

MOST = {"n_envs": 1_024, "n_steps": 100_000, "n_timesteps": 10**12}
"""Upper bounds of settings in a file that determine the use of memory."""

MOST_OF_OTHERS = 10**7
"""Upper bound of all other numbers among a file's settings."""


def written_settings(file: Sb3Zip, algorithm: str) -> dict[str, Any]:
    """Extracts an algorithm's settings from the attributes in a zip file; only plain numbers and strings are used.

    Args:
        file: Content of the zip file.
        algorithm: Name of the algorithm.
    """
    known = set(defaults_of(SettingOrigin("sb3", VERSION, algorithm))) - {"policy_kwargs", "use_rms_prop"}
    settings = {name: value for name, value in file.settings.items() if name in known and _is_plain(name, value)}
    if _is_plain("rate", file.settings.get("exploration_rate")):
        settings["exploration_initial_eps"] = file.settings["exploration_rate"]  # epsilon when the file was saved
    steps = file.settings.get("_total_timesteps")
    return {**settings, "n_timesteps": steps if steps and _is_plain("n_timesteps", steps) else STEPS}


def _is_plain(name: str, value: Any) -> bool:
    if name == "ent_coef" and isinstance(value, str):
        return value == "auto"
    if type(value) is bool:
        return True
    return type(value) in (int, float) and -1 <= value <= MOST.get(name, MOST_OF_OTHERS)


def lines_for(pickled: Path) -> str:
    """Text with a Python program that converts a pickled `VecNormalize` to an npz file, and the command to run it."""
    target = pickled.with_suffix(".npz")
    return LINES.format(source=str(pickled), target=str(target))


def filter_state(path: Path, leaves: Any) -> dict[str, Any]:
    """Loads the statistics of a `VecNormalize` as the state of rlrun's observation filter.

    Args:
        path: Path of the npz file.
        leaves: The arrays that make up the policy's observations, described as a tree of `ObservationLeaf`.

    Raises:
        UsageError: The file does not hold such statistics, or uses a different normalization formula from rlrun's.
    """
    numbers = _numbers(path)
    found = ObservationFilter(leaves)
    name = found.names
    if not isinstance(name, str) or not name or leaves.shape != numbers["mean"].shape:
        shape = getattr(leaves, "shape", "several parts")
        raise UsageError(
            f"{path}: its mean has shape {numbers['mean'].shape}, but the policy's observations have {shape}"
        )
    count = max(float(numbers["count"]), 2.0)
    moments = Moments(count, numbers["mean"], numbers["var"] * count)
    found.load({name: moments})
    # The points to test lie around the mean and beyond the clipping bounds.
    deviations = np.array([-20.0, -3.0, -1.0, 0.0, 0.5, 2.0, 20.0]).reshape(-1, *[1] * numbers["mean"].ndim)
    spread = np.sqrt(numbers["var"] + numbers["epsilon"])
    observations = (numbers["mean"] + deviations * spread).astype(np.float32)
    bound = float(numbers["clip_obs"])
    foreign = np.clip((observations - numbers["mean"]) / spread, -bound, bound)
    error = float((np.abs(found(observations) - foreign) / np.maximum(1.0, np.abs(foreign))).max())
    if not error <= TOLERANCE:
        raise UsageError(
            f"{path}: rlrun's filter (epsilon 1e-8, clipped at 10) differs by {error:.1g} from VecNormalize "
            f"with epsilon {float(numbers['epsilon']):g} and clip_obs {bound:g}, more than the allowed "
            f"{TOLERANCE:g}"
        )
    return {name: moments.state()}


def _numbers(path: Path) -> dict[str, NDArray[np.float64]]:
    if path.suffix == ".pkl":
        raise UsageError(
            f"{path} is a pickle, which can run code when it is loaded. Run these lines where SB3 is "
            f"installed, then pass --normalization {path.with_suffix('.npz')}:\n\n{lines_for(path)}\n"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES:,} bytes when unpacked")
        with np.load(path, allow_pickle=False) as loaded:
            numbers = {name: np.asarray(loaded[name], np.float64) for name in _NAMES}
    except FileNotFoundError:
        raise UsageError(f"{path}: file not found") from None
    except Exception as error:  # zipfile, zlib and NumPy raise many types for damaged files
        raise UsageError(f"cannot read {path}: {str(error)[:200]}") from error
    is_number = all(numbers[name].size == 1 for name in _NAMES[2:])
    is_finite = all(np.isfinite(array).all() for array in numbers.values())
    if not is_number or not is_finite or numbers["mean"].shape != numbers["var"].shape or (numbers["var"] < 0).any():
        raise UsageError(f"{path}: mean and var must have the same shape and contain only finite numbers")
    return {name: array if name in ("mean", "var") else array.reshape(()) for name, array in numbers.items()}
