"""Distribution settings by machine, which replace those in config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import parse_experiments

ENTRY: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"env_steps": 1000},
    "config": {"num_workers": 1, "lr": 1e-3},
    "machines": {"laptop": {"num_workers": 0}, "cluster": {"num_workers": 16, "num_envs_per_worker": 32}},
}


@pytest.mark.parametrize(("machine", "workers", "envs"), [(None, 1, 8), ("laptop", 0, 8), ("cluster", 16, 32)])
def test_the_chosen_machine_sets_only_the_settings_of_distribution(
    machine: str | None, workers: int, envs: int
) -> None:
    (experiment,) = parse_experiments({"a": ENTRY}, [] if machine is None else [f"machine={machine}"])
    config = experiment.trials()[0].config
    assert (config.num_workers, config.num_envs_per_worker, config.lr) == (workers, envs, 1e-3)
    resolved = experiment.to_data()
    assert not resolved.keys() & {"machine", "machines"}
    assert resolved["config"]["num_workers"] == workers
    assert parse_experiments({"a": resolved})[0] == experiment


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"machine": "clutser"}, "a.machine: unknown machine 'clutser'; did you mean 'cluster'"),
        ({"machine": "pc", "machines": {}}, "a.machine: add machines: {pc: {num_workers: 4}}"),
        (
            {"machines": {"pc": {"num_worker": 1}}},
            (
                r"a\.machines\.pc\.num_worker: not a setting.*did you "
                "mean 'num_workers'"
            ),
        ),
        ({"machines": {"pc": {"lr": 1}}}, "machines.pc.lr: not a setting of a machine: 'lr'"),
        ({"machines": {"pc": 3}}, "machines.pc: must be a mapping of settings"),
        ({"machines": [1]}, "a.machines: must be a mapping from machine names"),
        (
            {"machine": "pc", "machines": {"pc": {"num_workers": -1}}},
            "a.machines.pc.num_workers: must be a whole number",
        ),
    ],
)
def test_errors_for_mistakes_in_machines_give_their_path_and_explain_what_is_wrong(
    part: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        parse_experiments({"a": {**ENTRY, **part}})


def test_validate_reports_settings_that_depend_on_the_machine_chosen_on_the_command_line(
    tmp_path: Path, wording
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "a:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 9}\n"
        "  machines: {cluster: {num_workers: 4, min_share_of_fragments: 0.75}}\n"
    )
    plain, chosen, wrong = (
        CliRunner().invoke(cli, ["validate", str(spec), *more])
        for more in ([], ["--machine", "cluster"], ["--machine", "clutser"])
    )
    assert (plain.exit_code, chosen.exit_code, wrong.exit_code) == (0, 0, 2)
    assert "depend on the machine" not in plain.stdout
    assert chosen.stdout == wording("min_share_of_fragments", "0.75")
    assert wrong.output == wording("cluster")
