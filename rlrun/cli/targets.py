"""Resolution of the command-line arguments CHECKPOINT, RUN and ENV: paths, or names in the runs folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlrun.cli.tables import echo
from rlrun.engine.messages.errors import CheckpointError, CheckpointRefused, RlrunError, UsageError, did_you_mean

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.training import Training

T = TypeVar("T")

RUN_FILE = "run.json"
TRIAL_FILE = "trial.json"
CARD_CHECKPOINT = "checkpoint"
"""Name of the checkpoint's folder in a folder that `rlrun card` has written."""
KNOWN_FILES = (RUN_FILE, TRIAL_FILE, "manifest.json", f"{CARD_CHECKPOINT}/manifest.json")


def run_named(target: str, runs_dir: Path) -> Path:
    """Resolves a path or name to a run's directory.

    Args:
        target: A path, or a name in the runs folder.
        runs_dir: The folder that holds the runs.

    Raises:
        UsageError: If there is no such run; the message suggests the nearest name.
    """
    found = existing(target, runs_dir)
    if found is not None and ((found / RUN_FILE).exists() or trial_directories(found)):  # opening it reports damage
        warn_of_other_owner(found, runs_dir)
        return found
    if found is not None and (found / TRIAL_FILE).is_file() and (found.parent / RUN_FILE).is_file():
        raise UsageError(f"{target} is a trial, but this command needs a run: {found.parent}")
    if found is not None:
        raise UsageError(f"{target} is not a run{did_you_mean(target, run_names(runs_dir))}")
    raise UsageError(_missing(target, runs_dir))


def run_or_trial_named(target: str, runs_dir: Path) -> tuple[Path, str | None]:
    """Resolves a path or name to a run's directory, and also to the trial's name if it names a trial.

    Args:
        target: A run or a trial: a path, or a name in the runs folder.
        runs_dir: The folder that holds the runs.

    Raises:
        UsageError: If there is no such run; the message suggests the nearest name.
    """
    found = existing(target, runs_dir)
    is_trial = found is not None and (found / TRIAL_FILE).is_file() and not (found / RUN_FILE).is_file()
    if found is not None and is_trial and (found.parent / RUN_FILE).is_file():
        warn_of_other_owner(found.parent, runs_dir)
        return found.parent, found.name
    return run_named(target, runs_dir), None


def checkpoint_named(target: str, runs_dir: Path, *, best: bool) -> Path:
    """Resolves the path or name of a checkpoint, card (see `rlrun card`), trial or run to a checkpoint's directory.

    Args:
        target: A checkpoint, a card's folder, a trial or a run: a path, or a name in the runs folder.
        runs_dir: The folder that holds the runs.
        best: Whether a run or trial resolves to its best checkpoint instead of its newest; a run with several trials
            resolves to the best checkpoint of its best trial.

    Raises:
        CheckpointError: If the target has no usable checkpoint.
        UsageError: If there is no such target, or if the newest checkpoint is requested from a run with several trials,
            in which case the message names the trials.
    """
    found = existing(target, runs_dir)
    if found is None:
        raise UsageError(_missing(target, runs_dir))
    if (found / RUN_FILE).is_file():
        if best and len(trial_directories(found)) > 1:
            return _best_of_run(found)
        return _of_trial(_only_trial(found, target), best=best)
    if (found / TRIAL_FILE).is_file():
        return _of_trial(found, best=best)
    if not (found / "manifest.json").exists() and (found / CARD_CHECKPOINT / "manifest.json").is_file():
        return found / CARD_CHECKPOINT
    return found  # reading it raises an error if it is not a checkpoint


def read_next(checkpoint: Path, find: Callable[[], Path], read: Callable[[Path], T]) -> T:
    """Reads a checkpoint, or a newer checkpoint if the running trial has removed it in the meantime.

    Args:
        checkpoint: Directory of the checkpoint.
        find: Function that returns the checkpoint to which a target currently resolves.
        read: Function that reads a checkpoint; called again if it fails because the directory is gone.

    Raises:
        CheckpointError: The checkpoint exists, but cannot be used.
        UsageError: `find` finds no other checkpoint, for example because the target is a checkpoint's path.
    """
    while True:
        try:
            return read(checkpoint)
        except (CheckpointError, FileNotFoundError):
            if checkpoint.exists():
                raise
        checkpoint = find()


def restored(checkpoint: Path, runs_dir: Path, *, trust: bool) -> Training:
    """Restores a `Training` from a checkpoint for inference with its policies; updates are not compiled.

    Code named in a checkpoint is imported if the checkpoint is in the user's own runs folder, or with `trust`.

    Args:
        checkpoint: Directory of the checkpoint.
        runs_dir: The folder that holds the user's own runs.
        trust: Whether to import code named in a checkpoint that is not the user's own.
    """
    from rlrun.engine.training.training import Training
    from rlrun.experiments.runs.run_directory import RunDirectory, follow_import_paths
    from rlrun.experiments.spec.load import make_importable

    run = next((folder for folder in checkpoint.resolve().parents if (folder / RUN_FILE).is_file()), None)
    if run is not None:
        warn_of_other_owner(run, runs_dir)
        trust = trust or is_own(run, runs_dir)
    if trust:
        make_importable(Path.cwd())
    if run is not None and trust:
        try:
            follow_import_paths(RunDirectory.open(run).table.import_paths)
        except RlrunError as error:  # the checkpoint can be restored without the run's table
            echo(f"{error}; continuing without it", err=True)
    with naming_runs_dir(run):
        return Training.restore(checkpoint, trust=trust, eager=True, for_training=False)


@contextmanager
def naming_runs_dir(run: Path | None) -> Iterator[None]:
    """Context manager that names, in a `CheckpointRefused` error, the ``--runs-dir`` option that makes a run trusted.

    Args:
        run: The run's directory; None for a checkpoint that belongs to no run.

    Raises:
        CheckpointRefused: The refusal, with ``--runs-dir`` and the run's folder.
    """
    from rlrun.experiments.runs.outcome import shown_path

    try:
        yield
    except CheckpointRefused as error:
        if run is None:
            raise
        folder = shlex.quote(shown_path(run.resolve().parent))
        raise CheckpointRefused(f"{error}. If it is your own run, pass --runs-dir {folder}") from error


def is_own(run: Path, runs_dir: Path) -> bool:
    """Whether a run is in the user's own runs folder, so that code named in its checkpoints is trusted."""
    from rlrun.engine.trust import why_not_own

    return not why_not_own(run, runs_dir)


def warn_of_other_owner(run: Path, runs_dir: Path) -> None:
    """Prints a warning on stderr if a run in the runs folder, or the folder itself, belongs to another user."""
    from rlrun.engine.trust import why_not_own

    if run.resolve().parent == runs_dir.resolve() and (reason := why_not_own(run, runs_dir)):
        echo(f"{reason}, so rlrun does not trust this run", err=True)


def evaluation_env(checkpoint: Path, training: Training) -> EnvConfig:
    """Evaluation env for a checkpoint: the env under `evaluation` in the spec, or else the training env.

    If it is the training env, it is created with its `evaluation_kwargs`.

    Args:
        checkpoint: A checkpoint's directory.
        training: The `Training` restored from the checkpoint.

    Raises:
        CheckpointError: If the checkpoint was removed, which happens to older checkpoints while a trial is running.
    """
    from rlrun.engine.checkpoint.format import SPEC_FILE
    from rlrun.engine.checkpoint.plain_yaml import load_plain_yaml
    from rlrun.engine.training.save import checkpointing

    try:
        spec = load_plain_yaml((checkpoint / SPEC_FILE).read_text())
    except FileNotFoundError:
        raise CheckpointError(
            f"{checkpoint}: the run is still training and has removed this checkpoint; try again"
        ) from None
    return checkpointing.evaluation_env(spec) or training.description.env.in_evaluation()


def env_written(text: str) -> Any:
    """Parses an env on the command line: an id, or a YAML mapping, for example for a multi-agent world.

    Raises:
        SpecError: If the argument begins with { but is not a mapping.
    """
    from rlrun.experiments.spec.yaml_source import parse_value

    return parse_value(text, "--env") if text.startswith("{") else text


def env_named(target: str) -> str:
    """Converts an env typed on the command line to the YAML for `env` in a spec.

    A multi-agent world, also a class of PettingZoo, becomes ``{world: NAME}``, and a PettingZoo module
    ``{pettingzoo: NAME}``; other names are unchanged.
    """
    from rlrun.engine.settings.registry import load_object
    from rlrun.engine.worlds.make_worlds import takes_num_worlds
    from rlrun.engine.worlds.user_objects import is_pettingzoo
    from rlrun.engine.worlds.world import World

    module, _, name = target.partition(":")
    if module.replace(".", "").isidentifier():
        if name.isidentifier():
            made = load_object(target, "env factory")
            is_world = isinstance(made, type) and (issubclass(made, World) or is_pettingzoo(made))
            if is_world or takes_num_worlds(made):
                return f"{{world: {target}}}"
        elif "." in module and not name and find_spec(module.partition(".")[0]):
            return f"{{pettingzoo: {target}}}"
    return target


def existing(target: str, runs_dir: Path) -> Path | None:
    """Finds a file or folder by name, first in the current directory, then in the runs folder; None if neither has it.

    A folder in the current directory that is not a run does not hide a run of the same name.
    """
    found = [path for path in (Path(target), runs_dir / target) if path.exists()]
    return next(
        (path for path in found if any((path / file).is_file() for file in KNOWN_FILES)), next(iter(found), None)
    )


def run_names(runs_dir: Path) -> list[str]:
    """Lists the names of the runs in the runs folder, sorted."""
    return sorted(path.parent.name for path in runs_dir.glob(f"*/{RUN_FILE}"))


def trial_directories(run: Path) -> list[Path]:
    """Lists the directories of a run's trials, sorted by name, which begins with the trial's number."""
    return sorted(path.parent for path in run.glob(f"*/{TRIAL_FILE}"))


def _missing(target: str, runs_dir: Path) -> str:
    """Message about a missing target, with the searched folders and the most similar name."""
    near = did_you_mean(target, run_names(runs_dir))
    return f"{target} does not exist in the current folder ({Path.cwd()}) or in {runs_dir.absolute()}{near}"


def _only_trial(run: Path, target: str) -> Path:
    trials = trial_directories(run)
    if not trials:
        raise CheckpointError(f"{target} has no trials yet")
    if len(trials) > 1:
        names = "\n".join(f"  {target.rstrip('/')}/{trial.name}" for trial in trials)
        raise UsageError(f"{target} has {len(trials)} trials; choose one:\n{names}")
    return trials[0]


def _best_of_run(run: Path) -> Path:
    """Best checkpoint of a run's best trial, by the metric that judges the run."""
    from rlrun.report.reading import read_run, require_reported
    from rlrun.report.summary import best_trial

    view = read_run(run)
    metric, mode = view.goal
    require_reported([view], [metric])
    best, _ = best_trial(view, metric, mode)
    if best is None or best.checkpoint is None:
        raise CheckpointError(f"{run} has no checkpoint with a value of {metric}; name a trial instead")
    echo(f"the best checkpoint of {run.name} by {metric}: {best.trial}, {best.checkpoint.name}", err=True)
    return best.checkpoint


def _of_trial(trial: Path, *, best: bool) -> Path:
    from rlrun.experiments.runs.trial_result import read_trial

    read = read_trial(trial, "", has_driver=False)
    if best:
        metric = read.best_metric or read.judged_by
        found = read.best_checkpoint_by(metric)
        if found is None:
            raise CheckpointError(
                f"{trial} has no checkpoint with a value of {metric}; leave out --best to use its newest checkpoint"
            )
        echo(f"the best checkpoint of {trial.name} by {metric}: {found.name}", err=True)
        return found
    scan = read.checkpoints
    if scan.newest is None:
        reasons = "".join(f"\n  {skipped.reason}" for skipped in scan.skipped)
        raise CheckpointError(f"{trial} has no {'complete ' if reasons else ''}checkpoint{reasons}")
    for skipped in scan.skipped:
        echo(f"skipped {skipped.reason}", err=True)
    return scan.newest
