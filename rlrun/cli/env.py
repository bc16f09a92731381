"""``rlrun env check ENV``: steps an env as training would, and says what each finding means."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_json
from rlrun.cli.options import json_option
from rlrun.cli.terminal import echo
from rlrun.errors import ExitCode

if TYPE_CHECKING:
    from rlrun.envs.env_check import EnvFinding
    from rlrun.envs.env_config import EnvConfig

MARKS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@click.group()
def env() -> None:
    """Look at an env before training in it."""


@env.command()
@click.argument("target", metavar="ENV|FILE")
@click.option(
    "--steps",
    type=click.IntRange(min=10, max=20_000),
    default=2_000,
    show_default=True,
    help="Env steps to take by random actions.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the episodes.")
@json_option("the findings")
def check(target: str, steps: int, seed: int, as_json: bool) -> None:
    """Step an env by random actions, and say what is found.

    ENV is an id or package.module:factory; a spec FILE means each env in it.
    Looked at are spaces, observations, rewards, ends of episodes, seeds, whether
    a resume brings it back by replaying its actions, its speed, how a network
    sees it, and which algorithms can learn in it. Exit code 6 if something is
    WRONG.
    """
    from rlrun.envs.env_check import check_by_stepping

    checked = [(config, check_by_stepping(config, steps=steps, seed=seed)) for config in _envs(target)]
    found = [(config, [*findings, *_for_learning(config)]) for config, findings in checked]
    if as_json:
        print_json([{"env": config.to_data(), "findings": list(map(asdict, findings))} for config, findings in found])
    else:
        echo("\n\n".join("\n".join([config.id, *_lines(findings)]) for config, findings in found))
    if any(one.verdict == "wrong" for _, findings in found for one in findings):
        raise click.exceptions.Exit(ExitCode.ENVIRONMENT_UNUSABLE)


def _lines(findings: list[EnvFinding]) -> list[str]:
    width = max(len(one.topic) for one in findings)
    lines = []
    for one in findings:
        lines.append(f"  {MARKS[one.verdict]} {one.topic:<{width}}  {' '.join(one.found.split())}")
        told = "; ".join(text for text in (one.reason, one.advice) if text)
        lines += [f"        {'':<{width}}{told}"] if told else []
    return lines


def _envs(target: str) -> list[EnvConfig]:
    """Returns the envs that a target means: those of a spec file, each once, or the one of an id."""
    from rlrun.envs.env_config import EnvConfig
    from rlrun.errors import UsageError
    from rlrun.spec.load import load_experiments, make_importable
    from rlrun.worlds.world_config import WorldConfig

    if Path(target).suffix in (".yaml", ".yml"):
        trials = [trial for one in load_experiments([Path(target)]) for trial in one.trials() or [one.first_trial()]]
        envs = {repr(trial.env): trial.env for trial in trials}
        if worlds := [each.id for each in envs.values() if isinstance(each, WorldConfig)]:
            raise UsageError(
                f"env check steps envs of one agent, and {worlds[0]} is a world of many: make it once with "
                "`rlrun validate --env`"
            )
        return [each for each in envs.values() if isinstance(each, EnvConfig)]
    make_importable(Path.cwd())
    return [EnvConfig.parse(target, path="ENV")]


def _for_learning(config: EnvConfig) -> list[EnvFinding]:
    """Returns how a network sees the env by default, and who can learn in it."""
    from rlrun.envs.env_check import EnvFinding
    from rlrun.envs.make import spaces_of
    from rlrun.errors import UsageError
    from rlrun.nn.model_config import ModelConfig
    from rlrun.nn.observation_leaves import described_leaves
    from rlrun.policy.action_masks import policy_leaves
    from rlrun.registry import algorithm_class, algorithm_names

    spaces = spaces_of(config)
    try:
        leaves = policy_leaves(*spaces, ModelConfig(), normalize_observations=False)
    except UsageError as error:
        return [
            EnvFinding(
                "network", "wrong", str(error), "no policy of rlrun can look at it", "model.module, or a wrapper"
            )
        ]
    seen = ", ".join(f"{path}: {how}" if path else how for path, how in described_leaves(leaves))
    fitting: list[str] = []
    refused: dict[str, Any] = {}
    for name in algorithm_names():
        algorithm = algorithm_class(name)
        try:
            algorithm(algorithm.Config()).policy(spaces, 0)
            fitting.append(name)
        except UsageError as error:
            refused[name] = error
    algorithms = EnvFinding("algorithms", "ok", ", ".join(fitting))
    if not fitting:
        algorithms = EnvFinding("algorithms", "wrong", "none can learn in it", str(next(iter(refused.values()))))
    return [EnvFinding("network", "ok", seen), algorithms]
