"""Documents in a card (folder for sharing a policy): a README with Hugging Face metadata, and results as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.deploy.card.evidence import ONE_SEED, CardEvidence, SeedResult
from rlrun.engine.checkpoint.plain_yaml import dump_plain_yaml
from rlrun.engine.data.action_kind import ActionKind
from rlrun.experiments.runs.run_directory import RunTable
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.report.configurations import params_text

FORMAT = "rlrun card"
"""Value of `format` in results.json, by which an earlier card is recognized."""

CHECKPOINT, SPEC, RESULTS, README = "checkpoint", "spec.yaml", "results.json", "README.md"
CURVE = "curve.svg"

FEWEST_OF_QUARTILES = 4
"""Smallest number of seeds at which the interquartile mean leaves out any seed."""

FEW_SEEDS = 5
"""Number of seeds below which a bootstrap interval is too narrow; see `rlrun.report.statistics`."""

_FILES = {
    SPEC: "the spec; `rlrun train -f spec.yaml` trains it",
    CHECKPOINT: "the policy: weights as safetensors, observation statistics, spaces, sha256 of each file",
    RESULTS: "the results in machine-readable form",
    CURVE: "learning curve",
    "replay.mp4": "video of the policy",
    "replay.gif": "video of the policy",
}


@dataclass(frozen=True)
class Subject:
    """Subject of a card (a folder for sharing a policy): run, algorithm, env and evaluation protocol.

    Attributes:
        name: Name of the run.
        algorithm: Display name of the run's algorithm or algorithms.
        algorithms: Names of the algorithms.
        env: Display name of the env.
        table: Content of the run's run.json.
        episodes: Number of evaluation episodes per seed.
        first_seed: Seed that determines all evaluation episodes, like the option ``--seed`` of ``rlrun evaluate``.
        best: Whether each seed's best checkpoint was evaluated, instead of its newest.
        actions: Whether actions in the evaluation episodes were greedy or sampled.
        imports_code: Whether the env or an algorithm is third-party code that the reader must install and trust.
    """

    name: str
    algorithm: str
    algorithms: tuple[str, ...]
    env: str
    table: RunTable
    episodes: int
    first_seed: int
    best: bool
    actions: ActionKind
    imports_code: bool

    @property
    def commits(self) -> list[str]:
        """Git commits of the repositories that contain the spec or the folder in which training ran, without paths."""
        return list(dict.fromkeys(self.table.commits.values()))

    @property
    def is_warm_start(self) -> bool:
        """Whether training started from the weights of another run."""
        return self.table.from_checkpoint is not None or self.table.after is not None


def results_document(subject: Subject, evidence: CardEvidence) -> dict[str, Any]:
    """Evaluations of all seeds as plain data, for the file results.json of a card (folder for sharing a policy)."""
    estimate = evidence.estimate
    interval = None if estimate is None else {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {
        "format": FORMAT,
        "run": subject.name,
        "algorithm": subject.algorithm,
        "env": subject.env,
        "metric": "episode_return_mean",
        "interquartile_mean": interval,
        "note": ONE_SEED if estimate is None else "",
        "protocol": _protocol(subject, evidence),
        "seeds": [_seed_document(seed) for seed in evidence.seeds],
        "missing": list(evidence.missing),
        "weights": evidence.shared.trial.name,
        "created": subject.table.created,
        "commits": subject.commits,
        "versions": subject.table.versions,
        "machine": subject.table.machine,
    }


def readme(subject: Subject, evidence: CardEvidence, files: Sequence[str]) -> str:
    """README text of a card, the folder for sharing a policy.

    Args:
        subject: Subject of the card.
        evidence: Evaluations of the seeds.
        files: Names of the folder's files besides the README.
    """
    parts = [
        f"---\n{dump_plain_yaml(_front_matter(subject, evidence))}---",
        f"# {subject.name}",
        f"`{subject.algorithm}` on `{subject.env}`, trained with rlrun {subject.table.versions.get('rlrun', '')}.",
        *(
            [f"> **{ONE_SEED.capitalize()}.** Another seed may perform much better or worse."]
            if _is_alone(evidence)
            else []
        ),
        _results_table(evidence),
        "## Protocol",
        "\n".join(f"- {sentence}" for sentence in _protocol(subject, evidence)),
        _seeds_table(evidence),
        *([f"![Learning curve]({CURVE})"] if CURVE in files else []),
        *[f"![Video of the policy]({name})" for name in files if name == "replay.gif"],
        "## Usage",
        f"In this folder, with rlrun {subject.table.versions.get('rlrun', '')} installed:",
        f"```sh\nrlrun evaluate .{' --trust' if subject.imports_code else ''}\nrlrun train -f spec.yaml --from .\n```",
        "The weights are pure data: loading them runs no code."
        + (
            (" The env or algorithm is custom code of its author: get it, read it, and put it into this folder.")
            if subject.imports_code
            else ""
        ),
        "## Files",
        "\n".join(f"- `{name}`: {_FILES.get(name, 'the policy for use without rlrun')}" for name in files),
    ]
    return "\n\n".join(parts) + "\n"


def _is_alone(evidence: CardEvidence) -> bool:
    return len(evidence.seeds) == 1


def _front_matter(subject: Subject, evidence: CardEvidence) -> dict[str, Any]:
    """Metadata of a model on Hugging Face: https://huggingface.co/docs/hub/model-cards#model-card-metadata."""
    estimate = evidence.estimate
    value = evidence.shared.mean if estimate is None else estimate.value
    name = f"mean return, {result_text(evidence)}"
    metric = {"type": "mean_reward", "name": name, "value": round(value, 4), "verified": False}
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": subject.env, "name": subject.env},
        "metrics": [metric],
    }
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "rlrun", *subject.algorithms, subject.env]
    return {
        "library_name": "rlrun",
        "pipeline_tag": "reinforcement-learning",
        "tags": list(dict.fromkeys(tags)),
        "model-index": [{"name": subject.name, "results": [result]}],
    }


def result_text(evidence: CardEvidence) -> str:
    """Formats the result of a shared policy as text, with a remark if it is from a single seed."""
    estimate = evidence.estimate
    if estimate is None:
        return f"{_number(evidence.shared.mean)} ({ONE_SEED})"
    return f"{_number(estimate.value)} [{_number(estimate.low)}, {_number(estimate.high)}]"


def _results_table(evidence: CardEvidence) -> str:
    return "\n".join(
        [
            "| mean return [95% interval] | worst seed | seeds |",
            "|---|---|---|",
            f"| {result_text(evidence)} | {_number(evidence.worst.mean)} | {len(evidence.seeds)} |",
        ]
    )


def _seeds_table(evidence: CardEvidence) -> str:
    rows = [
        f"| {seed_number(seed.trial)} | {_number(seed.mean)} | {seed.trial.env_steps:,} | {seed.trial.shown_status} |"
        for seed in evidence.seeds
    ]
    return "\n".join(["| seed | mean return | env steps | training |", "|---|---|---|---|", *rows])


def _protocol(subject: Subject, evidence: CardEvidence) -> list[str]:
    """Sentences that describe how the result was obtained."""
    which = "best" if subject.best else "newest"
    how = "chosen by name" if evidence.is_named else "the median by mean return"
    seed = seed_number(evidence.shared.trial)
    varied = params_text(evidence.group.params)
    built = ", ".join(commit[:12] for commit in subject.commits)
    sentences = [
        f"The {which} checkpoint of each seed played {subject.episodes} episodes with {subject.actions} actions, the "
        f"same episodes for every seed (`rlrun evaluate --episodes {subject.episodes} --seed {subject.first_seed}`).",
        _aggregation(len(evidence.seeds)),
        f"The weights are from seed {seed}: {how}."
        if len(evidence.seeds) > 1
        else f"The weights are from seed {seed}.",
        *([f"The run contained several configurations; this one has {varied}."] if varied else []),
        *(["Training started from the weights of another run."] if subject.is_warm_start else []),
        *[f"Not counted: {reason}." for reason in evidence.missing],
        f"Commit that was checked out when training started, not counting uncommitted changes: {built}."
        if built
        else "",
        f"Trained on {subject.table.created[:10]}, on {_machine(subject.table)}.",
    ]
    return [sentence for sentence in sentences if sentence]


def _aggregation(seeds: int) -> str:
    if seeds == 1:
        return "There is only one seed, so there is no interval over seeds."
    average = "mean" if seeds < FEWEST_OF_QUARTILES else "interquartile mean"
    few = " With so few seeds it tends to be too narrow." if seeds < FEW_SEEDS else ""
    return f"The result is the {average} over seeds, with a 95% bootstrap interval over seeds.{few}"


def _machine(table: RunTable) -> str:
    if not table.machine:
        return "an unknown machine"
    gpu = table.machine.get("gpu", "none")
    return table.machine.get("cpu", "an unknown CPU") + (f", {gpu}" if gpu != "none" else "")


def seed_number(trial: TrialResult) -> int:
    """Seed in a trial's spec: the trial's own seed, or the seed of its population."""
    found = trial.seed if trial.population is None else trial.population
    return 0 if found is None else found  # the seed is unknown if the trial's files are damaged


def _seed_document(seed: SeedResult) -> dict[str, Any]:
    return {
        "seed": seed_number(seed.trial),
        "trial": seed.trial.name,
        "status": seed.trial.shown_status,
        "env_steps": seed.trial.env_steps,
        "episode_return_mean": seed.mean,
        "episode_returns": list(seed.returns),
    }


def _number(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
