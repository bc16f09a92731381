"""``rlrun card RUN -o DIR``: a folder for sharing a policy with the evidence for its results."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, complete_trials, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, echo

if TYPE_CHECKING:
    from rlrun.deploy.card.evidence import CardEvidence
    from rlrun.engine.training.training import Training
    from rlrun.experiments.runs.trial_result import TrialResult
    from rlrun.experiments.spec.experiment import Experiment
    from rlrun.report.reading import RunView

VIDEOS = (".mp4", ".gif")


@click.command()
@click.argument("target", metavar="RUN", shell_complete=complete_trials)
@click.option("-o", "--output", type=OutputFile(or_folder=True), required=True, help="The folder to write.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of each seed instead of the newest.")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of evaluation episodes per seed.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the episodes.")
@click.option(
    "--video", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A video to copy into the folder."
)
@runs_dir_option
@trust_option
@json_option("the results")
def card(
    target: str,
    output: Path,
    best: bool,
    episodes: int,
    seed: int,
    video: Path | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Write a folder for sharing a policy.

    The folder has the layout of a Hugging Face model: a README with the results of
    all seeds, their confidence interval and the protocol; the spec; the weights as safetensors and
    ONNX; and the learning curve. All seeds are evaluated. The folder contains the weights of the
    median seed, or of the trial that RUN names. Local paths, services and secrets are left out.

    Use the folder with `rlrun evaluate DIR` and `rlrun train --from DIR`.
    """
    from rlrun.cli.targets import run_or_trial_named
    from rlrun.deploy.card.folder import card_folder
    from rlrun.deploy.card.readme import README, RESULTS, Subject, readme, results_document
    from rlrun.engine.trust import spec_risks
    from rlrun.experiments.spec.experiment import actions_of
    from rlrun.report.reading import read_run

    if video is not None and video.suffix not in VIDEOS:
        raise click.BadParameter(f"{video}: the name of a video must end with .mp4 or .gif", param_hint="--video")
    run, trial = run_or_trial_named(target, runs_dir)
    view = read_run(run)
    experiment = _experiment(view, runs_dir, trust=trust)
    with card_folder(output) as folder:
        evidence = _evidence(view, trial, runs_dir, best=best, episodes=episodes, seed=seed, trust=trust)
        names = (view.name, view.algorithm, experiment.algorithms, view.env)
        actions, risks = actions_of(experiment.evaluation), spec_risks(experiment.to_data())
        subject = Subject(*names, view.table, episodes, seed, best, actions, imports_code=bool(risks))
        _write_files(folder, experiment, evidence, runs_dir, trust=trust)
        if video is not None:
            shutil.copy(video, folder / f"replay{video.suffix}")
        document = results_document(subject, evidence)
        (folder / RESULTS).write_text(json.dumps(document, indent=2) + "\n")
        files = sorted(path.name for path in folder.iterdir())
        (folder / README).write_text(readme(subject, evidence, files), encoding="utf-8")
    print_result(document, _text(output, evidence))


def _experiment(view: RunView, runs_dir: Path, *, trust: bool) -> Experiment:
    """The run's experiment; code that it names is imported only for the user's own run, or with ``--trust``."""
    from rlrun.cli.targets import is_own, naming_runs_dir
    from rlrun.engine.trust import refuse_risks_of_run
    from rlrun.experiments.runs.run_directory import RunDirectory, follow_import_paths
    from rlrun.experiments.spec.load import make_importable

    if trust or is_own(view.path, runs_dir):
        make_importable(Path.cwd())
        follow_import_paths(view.table.import_paths)
    else:
        with naming_runs_dir(view.path):
            refuse_risks_of_run(view.path)
    return RunDirectory(view.path, view.table).experiment()


def _evidence(
    view: RunView, trial: str | None, runs_dir: Path, *, best: bool, episodes: int, seed: int, trust: bool
) -> CardEvidence:
    from rlrun.cli.targets import checkpoint_named, evaluation_env, restored
    from rlrun.deploy.card.evidence import configuration_named, gather

    def checkpoint_of(member: TrialResult) -> Path:
        return checkpoint_named(str(member.directory), runs_dir, best=best)

    def evaluate(checkpoint: Path) -> tuple[float, ...]:
        with restored(checkpoint, runs_dir, trust=trust) as training:
            result = training.evaluate(episodes, seed=seed, env=evaluation_env(checkpoint, training))
        echo(f"{checkpoint.parent.parent.name}: {cell_text(result.mean)}", err=True)
        return tuple(result.returns)

    return gather(view, configuration_named(view, trial), trial, checkpoint_of, evaluate)


def _write_files(folder: Path, experiment: Experiment, evidence: CardEvidence, runs_dir: Path, *, trust: bool) -> None:
    """Writes spec, policy, curve and ONNX files; reports on stderr if the curve or an ONNX file is left out."""
    from rlrun.cli.targets import restored
    from rlrun.deploy.card.folder import entry_of, write_policy
    from rlrun.deploy.card.readme import SPEC, seed_number
    from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml

    shared = evidence.shared
    entry = entry_of(experiment, shared.trial.params, [seed_number(seed.trial) for seed in evidence.seeds])
    (folder / SPEC).write_text(dump_plain_yaml({experiment.name: entry}), encoding="utf-8")
    write_policy(shared.checkpoint, folder)
    _draw_curve(folder, evidence)
    with restored(shared.checkpoint, runs_dir, trust=trust) as training:
        _export(training, shared.checkpoint, folder)


def _draw_curve(folder: Path, evidence: CardEvidence) -> None:
    from rlrun.deploy.card.readme import CURVE
    from rlrun.engine.messages.errors import EnvironmentUnusable
    from rlrun.report.curves import curve_of
    from rlrun.report.picture import draw_picture
    from rlrun.report.step_axis import STEP_NAMES, common_axis

    metric = evidence.shared.trial.judged_by
    axis = common_axis(trial.last_result for trial in evidence.group.trials)
    curve = curve_of(evidence.group, metric, axis)
    if curve is None:
        echo(f"left out: {CURVE}: training reported no {metric}", err=True)
        return
    try:
        draw_picture([curve], metric, STEP_NAMES[axis], folder / CURVE)
    except EnvironmentUnusable as error:
        echo(f"left out: {CURVE}: {error}", err=True)


def _export(training: Training, checkpoint: Path, folder: Path) -> None:
    """Writes an ONNX file for each policy."""
    from rlrun.cli.targets import evaluation_env
    from rlrun.deploy.export.check import ExportDiffers
    from rlrun.deploy.export.observations import of_env
    from rlrun.deploy.export.saved_policy import export, metadata_of
    from rlrun.engine.messages.errors import UsageError

    policies, actions = list(training.description.policies.algorithms), training.description.actions
    for name in policies:
        file = "policy.onnx" if len(policies) == 1 else f"{name}.onnx"
        try:
            env = evaluation_env(checkpoint, training)
            metadata = metadata_of(training, name, checkpoint, actions)
            observations = partial(of_env, training, name, env, 0)
            found = export(training, name, observations, metadata, to="onnx", actions=actions, seed=0)
        except (UsageError, ExportDiffers) as error:
            echo(f"left out: {file}: {error}", err=True)
        else:
            (folder / file).write_bytes(found.content)


def _text(output: Path, evidence: CardEvidence) -> str:
    from rlrun.deploy.card.readme import result_text

    lines = [f"Wrote {output}", f"mean return {result_text(evidence)}, weights of {evidence.shared.trial.name}"]
    return "\n".join([*lines, *(f"not counted: {reason}" for reason in evidence.missing)])
