from __future__ import annotations

import json
from pathlib import Path
from threading import Timer

import pytest
import torch
from click.testing import CliRunner, Result

from rlrun.cli import env
from rlrun.cli.main import cli
from rlrun.engine.messages.errors import ExitCode


@pytest.fixture(autouse=True)
def _never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents the messages of slow checks on stderr, however busy the machine is."""
    monkeypatch.setattr(env, "SLOW_S", 3600.0)


class Elapsed(Timer):
    """Timer whose time is up at once."""

    def start(self) -> None:
        self.function()


@pytest.fixture(scope="module")
def slow() -> Result:
    """A check that is slow from the start."""
    torch.set_num_threads(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env, "Timer", Elapsed)
        return check("CartPole-v1")


def test_a_slow_check_announces_each_of_its_stages(slow: Result) -> None:
    assert [line.partition(": ")[0] for line in slow.stderr.splitlines()] == ["CartPole-v1"] * 6
    assert "100 env steps" in slow.stderr.splitlines()[0]
    assert "algorithms" in slow.stderr.splitlines()[-1]


@pytest.mark.usefixtures("slow")
def test_checking_an_env_limits_torch_to_one_thread() -> None:
    assert torch.get_num_threads() == 1


def test_a_check_that_becomes_slow_announces_the_current_and_later_stages() -> None:
    written: list[str] = []
    stages = env.SlowStages(written.append, 3600.0)
    with stages as begin:
        begin("first")
        begin("second")
        assert written == []
        stages._become_slow()
        begin("third")
    stages._become_slow()
    assert written == ["second", "third"]


def check(*words: object) -> Result:
    return CliRunner().invoke(cli, ["env", "check", *map(str, words), "--steps", "100"])


def test_an_env_id_is_checked_and_suitable_algorithms_are_listed(slow: Result) -> None:
    assert slow.exit_code == 0
    told = {line[8:].partition("  ")[0].strip(): line for line in slow.stdout.splitlines()[1:]}
    assert [*told] == [
        *("observation space", "action space", "backend", "observations", "rewards"),
        *("episodes", "seeds", "resume", "speed", "network", "algorithms"),
    ]
    assert " dqn," in told["algorithms"]
    assert " td3" not in told["algorithms"]


def test_each_env_of_a_spec_is_checked_once_and_no_progress_is_printed_with_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env, "Timer", Elapsed)
    spec = tmp_path / "two.yaml"
    entry = "{algorithm: ppo, env: %s, seeds: 3, stop: {env_steps: 1}}"
    spec.write_text(f"a: {entry % 'CartPole-v1'}\nb: {entry % 'Pendulum-v1'}\nc: {entry % 'CartPole-v1'}\n")
    done = check(spec, "--json")
    assert done.stderr == ""
    data = json.loads(done.stdout)["envs"]
    assert [one["env"]["id"] for one in data] == ["CartPole-v1", "Pendulum-v1"]
    notes = [one["topic"] for one in data[1]["findings"] if one["verdict"] != "ok"]
    assert notes == ["episodes"]  # no episode of the pendulum ends within 50 steps


def test_checking_an_env_with_a_mistake_exits_with_code_6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "report")
    done = check("broken_worlds:Unseeded")
    assert done.exit_code == ExitCode.ENVIRONMENT_UNUSABLE
    assert "WRONG seeds" in done.stdout


@pytest.mark.parametrize(("where", "others"), [("__init__", False), ("step", True)])
def test_an_exception_in_the_env_is_reported_as_a_finding(where: str, others: bool, tmp_path: Path) -> None:
    raising = (
        f"from gymnasium.envs.classic_control import CartPoleEnv\n\nclass {where.strip('_').title()}(CartPoleEnv):\n"
        f"    def {where}(self, *args, **kwargs):\n        raise RuntimeError('stuck')\n"
    )
    (tmp_path / f"stuck_{where}.py").write_text(raising)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        done = check(f"stuck_{where}:{where.strip('_').title()}")
    assert done.exit_code == ExitCode.ENVIRONMENT_UNUSABLE
    assert "WRONG exception" in done.stdout
    assert "RuntimeError: stuck" in done.stdout
    assert ("ok    algorithms" in done.stdout) is others


def test_an_unknown_id_is_refused_with_the_closest_one(wording) -> None:
    done = check("Cartpole-v1")
    assert done.exit_code == ExitCode.USAGE_OR_SPEC
    assert done.stderr == wording("CartPole-v1")


def test_a_world_can_be_given_as_a_mapping_or_by_its_bare_name() -> None:
    mapping = "{world: 'rlrun.toys:CartPoles', kwargs: {}}"
    assert env._targets(mapping) == env._targets("rlrun.toys:CartPoles")


def test_a_world_can_be_checked_by_its_name() -> None:
    done = check("rlrun.toys:CartPoles")
    assert done.exit_code == 0
    told = {line[8:].partition("  ")[0].strip(): line for line in done.stdout.splitlines()[1:]}
    assert [*told] == [
        *("clock", "observation space", "action space", "lives", "observations", "rewards", "slots", "episodes"),
        *("births and ends", "seeds", "resume", "speed", "network", "algorithms"),
    ]
    assert " vdn" in told["algorithms"]


def test_findings_about_a_world_name_the_policy_they_concern(tmp_path: Path) -> None:
    spec = tmp_path / "world.yaml"
    spec.write_text(
        "world:\n  env: {world: 'rlrun.toys:CartPoles'}\n  seeds: 2\n  stop: {env_steps: 1}\n"
        "  policies: {left: {algorithm: ppo}, right: {algorithm: dqn}}\n  mapping: {pole_0: left, '*': right}\n"
    )
    (found,) = json.loads(check(spec, "--json").stdout)["envs"]
    topics = [one["topic"] for one in found["findings"]]
    assert found["env"]["world"] == "rlrun.toys:CartPoles"
    assert "left: rewards" in topics
    assert "right: algorithms" in topics
