from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

import rlrun
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding, observation_findings, reward_findings
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.envs.probes.action_effects import ActionEffects
from rlrun.engine.envs.probes.probe import Probe
from rlrun.engine.policy.random_behavior import RandomBehavior
from rlrun.engine.rollout.evaluation import EvaluationResult, evaluate
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from rlrun.engine.worlds.env_check import check_by_stepping
from rlrun.engine.worlds.make import kinds_of_agents
from rlrun.experiments.runs.trial_result import Columns, TrialResult
from rlrun.experiments.runs.trial_status import Status
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.report.diagnosis.diagnose import diagnose, failures
from rlrun.report.diagnosis.evidence import METRICS, Evidence
from rlrun.report.diagnosis.finding import Finding
from rlrun.report.reading import read_run

RANDOM = EvaluationResult([10.0, 30.0], [10, 30])  # mean 20, standard deviation 10

PPO: dict[str, Any] = {
    "train_batch_size": 256,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 64,
    "num_epochs": 4,
    "compile": False,
    "lr": 1e-3,
}
DQN: dict[str, Any] = {
    "compile": False,
    "min_env_steps_per_iteration": 200,
    "minibatch_size": 32,
    "model": {"hiddens": [32, 32]},
    "learning_starts": 200,
    "epsilon": [[0, 1.0], [1000, 0.05]],
}
IMPALA: dict[str, Any] = {
    "compile": False,
    "train_batch_size": 32,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 8,
    "model": {"hiddens": [16]},
}
SMALL = {"ppo": PPO, "dqn": DQN, "impala": IMPALA}


NO_BETTER = "no better than random"


def names(findings: list[Finding]) -> list[str]:
    return [finding.name for finding in findings]


def trained(
    folder: Path, algorithm: str, env: Any, config: dict[str, Any], env_steps: int = 4000, seeds: Sequence[int] = (0,)
) -> list[Finding]:
    """Trains, and returns the findings."""
    spec = {
        "algorithm": algorithm,
        "env": env,
        "config": config,
        "stop": {"env_steps": env_steps},
        "seeds": list(seeds),
    }
    rlrun.run({"patient": spec}, runs_dir=folder, executor="local")
    view = read_run(folder / "patient", METRICS)
    resolved = TrialDirectory(view.trials[0].directory).read_spec()
    world = EnvConfig.parse(resolved["env"])
    ends = view.trials[0].last_result["episode_return_mean"] is not None
    random = evaluate({"default": RandomBehavior(spaces_of(world))}, world, 50, seed=0) if ends else None
    evidence = [Evidence(trial, resolved["config"], random, algorithm=algorithm) for trial in view.trials]
    return diagnose(evidence, check_by_stepping(world, kinds_of_agents(world), {}, steps=1000))


@pytest.mark.parametrize(
    ("algorithm", "env", "config", "expected"),
    [
        pytest.param("ppo", "CartPole-v1", {}, [], id="nothing"),
        pytest.param("ppo", "CartPole-v1", {"lr": 0.0}, ["zero learning rate"], id="rate of 0"),
        pytest.param(
            "ppo", "CartPole-v1", {"lr": 1e-6}, ["learning rate too low", "tiny policy updates"], id="tiny rate"
        ),
        pytest.param(
            "ppo",
            "CartPole-v1",
            {"lr": 0.5},
            ["learning rate too high", "large policy updates", "entropy collapse"],
            id="huge rate",
        ),
        pytest.param("ppo", "CartPole-v1", {"entropy_coeff": 10.0}, ["large entropy bonus"], id="entropy bonus"),
        pytest.param("ppo", "broken_worlds:Endless", {}, ["no episode ends", "env: episodes"], id="no end"),
        pytest.param(
            "ppo",
            {"id": "broken_worlds:Paying", "kwargs": {"factor": 1000.0}},
            {},
            ["env: rewards", "clipped gradients"],
            id="large rewards",
        ),
        pytest.param(
            "ppo",
            {"id": "broken_worlds:Paying", "kwargs": {"factor": 0.0}},
            {},
            ["all returns equal", "env: rewards"],
            id="no rewards",
        ),
        pytest.param("ppo", "broken_worlds:Far", {}, ["env: observations"], id="large observations"),
        pytest.param("ppo", "broken_worlds:Unseeded", {}, ["env: seeds", "env: resume"], id="unseeded env"),
        pytest.param(
            "dqn", "CartPole-v1", {"learning_starts": 50_000}, ["learning has not started"], id="learning starts late"
        ),
        pytest.param("dqn", "CartPole-v1", {"epsilon": 1.0}, ["still exploring"], id="epsilon of 1"),
        pytest.param(
            "dqn",
            "CartPole-v1",
            {"lr": 0.1, "target_update_interval": 1, "double": False},
            ["learning rate too high", "values grow", "clipped gradients"],
            id="no target network",
        ),
        pytest.param("random", "CartPole-v1", {}, ["does not learn"], id="actions at random"),
    ],
)
def test_the_diagnosis_finds_the_defect_of_a_deliberately_broken_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    algorithm: str,
    env: Any,
    config: dict[str, Any],
    expected: list[str],
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    found = trained(tmp_path, algorithm, env, {**SMALL.get(algorithm, {}), **config})
    assert [name for name in names(found) if name in expected] == expected
    assert expected or not found
    assert all(finding.found and finding.reason and finding.advice for finding in found)


def test_rarely_broadcast_weights_are_diagnosed_as_stale_experience(tmp_path: Path, wording) -> None:
    config = {**IMPALA, "broadcast_interval": 300, "lr": 1e-4}
    found = {one.name: one for one in trained(tmp_path, "impala", "CartPole-v1", config, env_steps=7000)}
    assert found["stale experience"].advice == (
        wording("config.broadcast_interval", "config.rollout_fragment_length", "config.train_batch_size")
    )


def test_seeds_are_diagnosed_as_disagreeing_if_some_never_try_the_best_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    greedy = {**DQN, "epsilon": 0.0, "learning_starts": 0, "training_intensity": 1.0}
    env = {"id": "broken_worlds:Arms", "kwargs": {"best": 2}}
    found = trained(tmp_path, "dqn", env, greedy, env_steps=220, seeds=(3, 4))  # seed 3 begins with the best arm
    (finding,) = (one for one in found if one.name == "seeds disagree")
    assert (finding.found, len(finding.trials)) == (wording("10"), 2)


def test_the_advice_is_to_raise_a_gradient_bound_that_clips_typical_gradients(tmp_path: Path) -> None:
    config = {**PPO, "max_grad_norm": 1e-4, "lr": 1e-5}
    found = {one.name: one for one in trained(tmp_path, "ppo", "CartPole-v1", config)}
    assert found["clipped gradients"].advice == "config.max_grad_norm: 0.5"


def seen(
    rows: Mapping[str, list[float]],
    config: Mapping[str, Any] | None = None,
    name: str = "000",
    seed: int = 0,
    status: Status = "TERMINATED",
    error: str = "",
) -> Evidence:
    """Returns the evidence of a trial of configuration 0 with such columns."""
    values = {metric: np.array(column, np.float64) for metric, column in rows.items()}
    trial = TrialResult(name, Path("run", name), "e", status, seed=seed, configuration=0, error=error)
    trial.__dict__["columns"] = Columns(values, tuple(values))
    return Evidence(trial, {"max_grad_norm": 0.5, "lr": 1e-3} if config is None else config, RANDOM)


def curve(*ends: float, **more: list[float]) -> dict[str, list[float]]:
    """Returns columns with a curve through these returns, 10 rows for each."""
    rows = [end for end in ends for _ in range(10)]
    steps = [*map(float, range(len(rows)))]
    return {"env_steps": steps, "sgd_steps": [1e4] * len(rows), "episode_return_mean": rows} | more


def test_a_curve_that_loses_more_than_half_of_its_gain_is_diagnosed_as_collapsed() -> None:
    assert names(diagnose([seen(curve(20.0, 220.0, 119.0))], [])) == ["performance collapse"]
    assert names(diagnose([seen(curve(20.0, 220.0, 121.0))], [])) == []


def test_a_mean_above_nearly_all_random_episodes_shows_learning_even_if_a_few_are_far_worse() -> None:
    rare = EvaluationResult([-100.0] * 9 + [-10_100.0], [10] * 10)  # mean -1100, standard deviation 3000

    def found(end: float, random: EvaluationResult = rare) -> list[str]:
        return names(diagnose([replace(seen(curve(end)), random=random)], []))

    assert found(-109.0) == []  # 0.99 of the way from -1100 to -100 is -110
    assert found(-111.0) == [NO_BETTER]
    often = EvaluationResult([1.0, 0.0, 1.0, 1.0], [10] * 4)  # 0.75 + 0.43 is more than any policy can reach
    assert (found(1.0, often), found(0.98, often)) == ([], [NO_BETTER])
    equal = EvaluationResult([5.0] * 4, [10] * 4)
    assert found(5.0, equal) == [NO_BETTER]


def test_seeds_disagree_if_they_differ_by_more_than_half_of_the_best_gain(wording) -> None:
    good, bad = seen(curve(220.0), name="000"), seen(curve(119.0), name="001", seed=1)
    (finding,) = diagnose([good, bad], [])
    assert (finding.name, finding.trials) == ("seeds disagree", ("000", "001"))
    assert finding.found == wording("119", "220")
    assert diagnose([good, seen(curve(121.0), name="001", seed=1)], []) == []


def test_a_finding_names_the_trials_that_show_it() -> None:
    few = curve(20.0, sgd_steps=[10.0] * 10)
    (finding,) = diagnose([seen(few, name="000"), seen(few, name="001", seed=1)], [])
    assert (finding.name, finding.trials) == ("few updates", ("000", "001"))


def test_unusual_metrics_are_findings_only_for_a_trial_that_has_not_learned() -> None:
    odd = {"learner/kl": [0.5] * 10, "learner/entropy": [1.0] * 5 + [0.0] * 5, "policy_lag_mean": [20.0] * 10}
    assert diagnose([seen(curve(220.0, **odd))], []) == []
    found = names(diagnose([seen(curve(20.0, **odd))], []))
    assert found == ["large policy updates", "entropy collapse", "stale experience", NO_BETTER]


TWENTY_STEPS = {"episode_return_min": [-2.0] * 10, "episode_return_max": [200.0] * 10, "episode_len_mean": [20.0] * 10}
ALLOWED = 200 / (1 - 0.9**20)  # endless episodes that each pay 200 in their first step


TWO_AGENTS = {"agents/a/x": [0.0] * 10, "agents/b/x": [0.0] * 10}
BONUS = {"learner/alpha/alpha": [0.5] * 10, "learner/actor/entropy": [-4.0] * 10}


@pytest.mark.parametrize(
    ("metric", "more", "config", "above", "below"),
    [
        ("learner/q_mean", {}, {}, ALLOWED, 0.1 * ALLOWED),
        ("learner/critics/q_mean", {}, {}, ALLOWED, 0.1 * ALLOWED),
        ("learner/value_mean", {}, {}, ALLOWED, 0.1 * ALLOWED),
        ("learner/actor/value_mean", {}, {}, ALLOWED, 0.1 * ALLOWED),
        ("learner/q_mean", {}, {"gamma": 1.0}, 200.0, 20.0),
        ("learner/q_mean", {"episode_return_min": [-90.0] * 10}, {"gamma": 1.0}, 200.0, 90.0),
        ("learner/q_mean", {"episode_return_max": [0.9] * 10}, {"gamma": 1.0}, 0.9, 2.0),  # not 2.0 in both directions
        ("learner/q_mean", {"episode_return_max": [-1.0] * 10}, {"gamma": 1.0}, 0.2, 2.0),
        ("learner/q_mean", {}, {"clip_rewards": 1}, 10.0, 10.0),
        ("learner/q_mean", {}, {"reward_scale": 0.25}, 0.25 * ALLOWED, 0.025 * ALLOWED),
        ("learner/q_mean", {}, {"reward_scale": 0.25, "clip_rewards": 1}, 10.0, 10.0),
        ("learner/q_mean", TWO_AGENTS, {"team_reward": "sum"}, 2 * ALLOWED, 0.2 * ALLOWED),
        ("learner/q_mean", TWO_AGENTS, {"team_reward": "once"}, ALLOWED, 0.1 * ALLOWED),
        (
            "learner/q_mean",
            {"env_steps": [5.0], "agent_steps": [180.0]},
            {"team_reward": "sum"},
            36 * ALLOWED,
            3.6 * ALLOWED,
        ),
        ("learner/critics/q_mean", BONUS, {}, ALLOWED + 0.5 * 4 / (1 - 0.9), 0.1 * ALLOWED + 0.5 * 4 / (1 - 0.9)),
    ],
)
def test_values_that_grow_beyond_what_returns_of_the_same_sign_allow_are_a_finding(
    metric: str, more: dict[str, list[float]], config: dict[str, Any], above: float, below: float
) -> None:
    def found(value: float) -> list[str]:
        rows = curve(200.0, **TWENTY_STEPS | more | {metric: [value] * 10})
        return names(diagnose([seen(rows, {"gamma": 0.9, **config})], []))

    assert found(1.49 * above) == found(-1.49 * below) == []
    assert found(1.51 * above) == found(-1.51 * below) == ["values grow"]


def test_values_that_rise_while_returns_fall_are_reported_before_the_performance_collapse(wording) -> None:
    def found(values: list[float], returns: list[float]) -> list[Finding]:
        ends = {"episode_return_min": [-400.0] * 15, "episode_return_max": [0.9] * 15, "episode_len_mean": [25.0] * 15}
        rows = curve(0.0) | {"episode_return_mean": returns, "env_steps": [*map(float, range(15))], **ends}
        config = {"gamma": 0.99, "lr": 5e-4, "double": True}
        told = replace(
            seen(rows | {"learner/q_mean": values}, config), random=EvaluationResult([-91.0, -89.0], [25, 25])
        )
        return diagnose([told], [])

    growing, falling = [0.96 * 1.25**row for row in range(15)], [-10.0 - 6 * row for row in range(15)]
    first, second = found(growing, falling)
    assert (first.name, second.name) == ("values grow", "performance collapse")
    assert first.found == wording("q_mean", "10", "2.344")
    assert second.reason == wording()
    (alone,) = found([*growing[:-2], growing[-3], growing[-1]], falling)  # q_mean failed to rise once
    assert alone.reason == wording()
    assert [one.name for one in found(growing, falling[::-1])] == []  # returns rise, too
    assert [one.name for one in found([value / 30 for value in growing], falling)] == ["performance collapse"]


def test_td_errors_that_mostly_exceed_the_bound_of_the_huber_loss_are_a_finding(wording) -> None:
    def found(beyond: float, metric: str = "learner/huber_excess", end: float = 20.0) -> list[Finding]:
        config = {"huber": 1.0, "reward_scale": 1.0, "clip_rewards": None}
        told = diagnose([seen(curve(end, **{metric: [0.0] * 9 + [beyond]}), config)], [])
        return [one for one in told if one.name == "errors beyond huber"]

    (finding,) = found(0.51)
    assert finding.found == wording("51%", "1.0")
    assert finding.advice == wording("config.huber", "config.clip_rewards", "config.reward_scale")
    assert found(0.51, "learner/critics/huber_excess") == [finding]
    assert found(0.5) == []
    assert found(0.51, end=220.0) == []  # the policy has learned


def test_values_of_normalized_rewards_are_not_compared_with_returns() -> None:
    rows = curve(200.0, **TWENTY_STEPS, **{"learner/value_mean": [1e6] * 10})
    assert diagnose([seen(rows, {"gamma": 0.9, "normalize_rewards": True})], []) == []


def test_if_values_of_a_team_grow_in_a_world_with_a_time_limit_the_advice_is_to_end_episodes_there(wording) -> None:
    ends = {"episode_return_max": [0.5] * 10, "episode_len_mean": [25.0] * 10}
    rows = curve(0.5, **ends, **{"learner/q_mean": [20.8] * 10}, **{f"agents/a_{number}/x": [0.0] for number in (0, 1)})
    config = {"gamma": 0.99, "team_reward": "sum", "lr": 5e-4, "target_update_interval": 200, "double": True}
    (grown,) = [one for one in diagnose([seen(rows, config)], []) if one.name == "values grow"]
    assert grown.found == wording("q_mean", "20.8", "4.501")
    assert grown.advice == wording("config.lr", "config.target_update_interval")
    assert grown.advice == wording()


def test_restarted_workers_and_value_functions_that_explain_nothing_are_reported() -> None:
    lost = curve(220.0, worker_restarts=[0.0] * 9 + [3.0])
    assert [(one.name, one.found) for one in diagnose([seen(lost)], [])] == [("workers restarted", "3 restarts")]
    blind = curve(20.0, **{"learner/explained_variance": [0.05] * 10})
    assert names(diagnose([seen(blind)], [])) == ["values explain nothing", NO_BETTER]


def test_if_gradients_are_zero_the_finding_suspects_the_rewards(wording) -> None:
    (finding,) = diagnose([seen(curve(20.0, **{"learner/grad_norm": [0.0] * 10}))], [])
    assert finding.name == "no gradient"
    assert finding.reason == wording("rewards do not differ")
    assert finding.advice == wording("rlrun env check", "rewards")
    (moving,) = diagnose([seen(curve(20.0, **{"learner/grad_norm": [0.0] * 9 + [0.1]}))], [])
    assert moving.name == NO_BETTER


def test_problems_in_an_env_that_the_settings_already_handle_are_not_findings() -> None:
    env = [EnvFinding(topic, "note", "large", is_severe=True) for topic in ("rewards", "observations")]
    scaled = {"normalize_rewards": True, "normalize_observations": True}
    bounded = {"max_grad_norm": 0.5}
    assert names(diagnose([seen(curve(220.0), bounded)], env)) == ["env: rewards", "env: observations"]
    assert names(diagnose([seen(curve(220.0), {})], env)) == ["env: observations"]  # without gradients, they do no harm
    assert diagnose([seen(curve(220.0), scaled)], env) == []
    wrong = [EnvFinding("observations", "wrong", "NaN")]
    assert names(diagnose([seen(curve(220.0), scaled)], wrong)) == ["env: observations"]


def test_notes_on_an_env_are_findings_only_if_they_are_severe_or_the_policy_has_not_learned() -> None:
    mild, severe = EnvFinding("episodes", "note", "long"), EnvFinding("clipped actions", "note", "all", is_severe=True)
    assert diagnose([seen(curve(220.0))], [mild]) == []
    assert names(diagnose([seen(curve(220.0))], [mild, severe])) == ["env: clipped actions"]
    assert names(diagnose([seen(curve(20.0))], [mild])) == ["env: episodes", NO_BETTER]


def test_hidden_state_is_not_a_finding_for_a_recurrent_policy() -> None:
    hidden = [EnvFinding("hidden state", "note", "60%", is_severe=True)]
    assert names(diagnose([seen(curve(220.0), {"model": {"core": None}})], hidden)) == ["env: hidden state"]
    assert diagnose([seen(curve(220.0), {"model": {"core": "gru"}})], hidden) == []


def with_gap(
    gap: float, gamma: float, *, sees_rewards: bool = True, end: float = 20.0, length: float = 9.0
) -> list[str]:
    """Names of the likely causes in a run of an env whose rewards are a given number of steps apart."""
    probe = Probe([], ActionEffects([]), gap, sees_rewards)
    rows = curve(end, episode_len_mean=[length] * 10)
    return [
        name for name in names(diagnose([replace(seen(rows, {"gamma": gamma}), probe=probe)], [])) if name in CAUSES
    ]


TOO_HIGH, TOO_LOW, NOT_STARTED = "learning rate too high", "learning rate too low", "learning has not started"
CAUSES = {"short horizon", "small replay", "large entropy bonus", TOO_HIGH, TOO_LOW}


def test_a_reward_that_is_discounted_to_less_than_a_hundredth_is_beyond_the_horizon() -> None:
    assert with_gap(44.0, 0.9) == ["short horizon"]  # 0.9^44 is 0.0097
    assert with_gap(43.0, 0.9) == with_gap(44.0, 0.99) == with_gap(44.0, 1.0) == []
    assert with_gap(44.0, 0.9, end=220.0) == []  # the policy has learned
    assert with_gap(3.0, 0.9, sees_rewards=False, length=200.0) == ["short horizon"]  # outlasts the probed episodes
    assert with_gap(3.0, 0.9, length=200.0) == []


def of_settings(config: Mapping[str, Any], end: float = 20.0, **more: list[float]) -> list[str]:
    """Names of the likely causes in a run with such settings and columns."""
    found = names(diagnose([seen(curve(end, **more), {"max_grad_norm": 0.5, **config})], []))
    return [name for name in found if name in CAUSES]


@pytest.mark.parametrize("rate", ["lr", "critic_lr"])
def test_a_learning_rate_of_0_01_is_too_high_and_one_whose_updates_hardly_move_weights_too_low(
    rate: str,
) -> None:
    def found(value: float, end: float = 20.0) -> list[str]:
        return of_settings({rate: value}, end, **{f"learner/{rate}": [value] * 10})

    assert found(0.01) == [TOO_HIGH]
    assert found(0.0099) == found(1.01e-5) == []  # 10,000 updates by 1.01e-5 are 0.101
    assert found(0.99e-5) == [TOO_LOW]
    assert found(0.029, end=220.0) == found(0.99e-5, end=220.0) == []
    assert found(0.03, end=220.0) == [TOO_HIGH]


def test_a_replay_buffer_too_small_for_a_whole_episode_is_a_finding_even_if_returns_rise() -> None:
    assert of_settings({"replay": {"capacity": 199}}, episode_len_mean=[20.0] * 9 + [200.0]) == ["small replay"]
    assert of_settings({"replay": {"capacity": 200}}, episode_len_mean=[20.0] * 9 + [200.0]) == []
    assert of_settings({"replay": {"capacity": 100}}, end=220.0, episode_len_mean=[200.0] * 10) == ["small replay"]


def test_an_entropy_bonus_is_found_too_large_if_the_policy_stays_uniform() -> None:
    uniform, sure = {"learner/entropy": [0.69] * 10}, {"learner/entropy": [0.69] * 5 + [0.6] * 5}
    assert of_settings({"entropy_coeff": 0.05}, **uniform) == ["large entropy bonus"]
    assert of_settings({"entropy_coeff": 0.05}, **sure) == of_settings({"entropy_coeff": 0.04}, **uniform) == []
    assert of_settings({"entropy_coeff": 0.05}, end=220.0, **uniform) == []
    # A step earns 2, and 0.2 of that is 0.4. At a temperature of 0.6, 0.69 nats count for 0.41.
    length, hot = {"episode_len_mean": [10.0] * 10}, {"learner/alpha/alpha": [0.6] * 10}
    assert of_settings({}, **uniform, **length, **hot) == ["large entropy bonus"]
    assert of_settings({}, **uniform, **length, **{"learner/alpha/alpha": [0.5] * 10}) == []


def test_a_run_that_ends_before_its_first_minibatch_has_not_started_to_learn() -> None:
    steps = {"env_steps": [float(step) for step in range(1000, 11_000, 1000)], "sgd_steps": [0.0] * 10}
    (finding,) = diagnose([seen(curve(20.0) | steps, {"learning_starts": 10_000})], [])
    assert finding.name == NOT_STARTED
    found = names(diagnose([seen(curve(20.0) | steps, {"learning_starts": 9_999})], []))
    assert NOT_STARTED not in found


def test_a_trial_without_env_steps_gets_no_finding_that_no_episode_ends() -> None:
    assert "no episode ends" not in names(diagnose([seen({"env_steps": [0.0, 0.0]})], []))
    assert "no episode ends" in names(diagnose([seen({"env_steps": [100.0, 200.0]})], []))


def test_too_few_updates_are_reported_only_for_finished_gradient_trials_that_have_not_learned() -> None:
    few = {"sgd_steps": [10.0] * 10}
    assert names(diagnose([seen(curve(20.0, **few))], [])) == ["few updates"]
    assert diagnose([seen(curve(220.0, **few))], []) == []
    assert names(diagnose([seen(curve(20.0, **few), {"lr": 0.1})], [])) == [NO_BETTER]
    assert names(diagnose([seen(curve(20.0, **few), status="INTERRUPTED")], [])) == [NO_BETTER]
    assert diagnose([seen({"env_steps": [0.0], "sgd_steps": [3.0]}, {"gamma": 0.9})], []) == []


def test_failed_trials_are_reported_with_their_errors_and_not_diagnosed_further(wording) -> None:
    diverged = "training has diverged: learner/loss is nan at iteration 2"
    rows = curve(20.0, sgd_steps=[10.0] * 10)
    evidence = [
        seen(rows, name="000", status="ERROR", error=diverged),
        seen(rows, name="001", status="ERROR", error="env e raised:\nTraceback\nValueError: the belt is torn"),
        seen({}, name="002", status="ERROR", error=diverged.replace("2", "7")),
    ]
    assert diagnose(evidence, []) == []
    first, second = failures(evidence)
    assert (first.found, first.trials) == (diverged, ("000", "002"))
    assert first.advice == wording("config.lr")
    assert (second.found, second.trials) == ("ValueError: the belt is torn", ("001",))
    assert second.advice == wording()


ENDS = {"episode_return_min": [20.0] * 10, "episode_return_max": [20.0] * 10, "episode_len_mean": [9.0] * 10}

ILL: list[dict[str, list[float]]] = [
    {"env_steps": [100.0] * 10},
    curve(20.0, sgd_steps=[5.0] * 10),
    curve(20.0, **{"learner/lr": [0.0] * 10}),
    curve(20.0, **{"learner/grad_norm": [0.0] * 10}),
    curve(20.0, worker_restarts=[1.0] * 10),
    curve(20.0, **ENDS, episodes=[50.0] * 10),
    curve(20.0, **ENDS | {"episode_return_min": [10.0] * 10, "learner/q_mean": [1e6] * 10}),
    curve(20.0, 220.0, 20.0),
    curve(20.0, **{"learner/grad_norm": [60.0] * 10}),
    curve(20.0, **{"learner/grad_norm": [1e6] * 10}),
    curve(20.0, **{"learner/kl": [0.5] * 10, "learner/entropy": [1.0] * 10}),
    curve(20.0, **{"learner/kl": [1e-7] * 10, "learner/entropy": [1.0] * 5 + [0.0] * 5}),
    curve(20.0, **{"learner/explained_variance": [0.0] * 10, "learner/epsilon": [0.9] * 10}),
    curve(20.0, **{"policy_lag_mean": [90.0] * 10, "learner/huber_excess": [0.9] * 10}),
    curve(20.0, **{"learner/lr": [0.05] * 10}),
    curve(20.0, **{"learner/lr": [1e-6] * 10}),
    curve(20.0, episode_len_mean=[1e7] * 10, **{"learner/entropy": [1.0] * 10, "learner/alpha/alpha": [1.0] * 10}),
]
"""Columns of trials that together show all possible findings."""

KNOWN = {
    "no episode ends",
    "few updates",
    "zero learning rate",
    "no gradient",
    "all returns equal",
    "workers restarted",
}
KNOWN |= {
    "does not learn",
    NO_BETTER,
    "performance collapse",
    "values grow",
    "errors beyond huber",
    "clipped gradients",
    "large policy updates",
}
KNOWN |= {"tiny policy updates", "entropy collapse", "entropy unchanged", "values explain nothing", "still exploring"}
KNOWN |= {NOT_STARTED, *CAUSES}
KNOWN |= {"stale experience", "env: rewards", "env: observations", "seeds disagree", "failed"}


def found_in_ill_trials(algorithm: str, config: Mapping[str, Any]) -> list[Finding]:
    """Returns all possible findings for trials of an algorithm."""
    patients = [replace(seen(rows, config, name=str(number)), algorithm=algorithm) for number, rows in enumerate(ILL)]
    probe = Probe([], ActionEffects([]), 1e5, sees_rewards=True)
    patients = [replace(patient, probe=probe) for patient in patients]
    large = np.full((10, 1), 1e4)
    env = [
        *reward_findings(large.ravel()),
        *observation_findings(Box(-np.inf, np.inf, (1,), np.float64), large[:, None], 10, lambda step, slot: ""),
    ]
    failed = seen({}, config, status="ERROR", error="training has diverged: learner/loss is nan")
    two_seeds = [seen(curve(220.0), config, "a"), seen(curve(20.0), config, "b", seed=1)]
    told = [finding for patient in patients for finding in diagnose([patient], env)]
    return [*told, *diagnose(two_seeds, []), *failures([failed])]


def test_advice_names_no_setting_that_an_algorithm_does_not_have() -> None:
    settings = {name: set(algorithm_class(name).Config.model_fields) for name in BUILT_IN}
    anyones = set().union(*settings.values())
    told = set()
    for algorithm, own in settings.items():
        for finding in found_in_ill_trials(algorithm, algorithm_class(algorithm).Config().to_data()):
            told.add(finding.name)
            words = {word for word in re.findall(r"\w+", finding.advice) if "_" in word} & anyones
            named = {*words, *re.findall(r"config\.(\w+)", finding.advice)}
            # Evolution and tabular algorithms do not report the losses in these columns, and recorded data has no lag.
            is_reported = "lr" in own and not (finding.name == "stale experience" and "input" in own)
            assert finding.advice or not is_reported, (algorithm, finding.name)
            assert named <= own, (algorithm, finding.name, named - own)
    assert told == KNOWN


def test_advice_omits_settings_that_already_have_the_advised_value(wording) -> None:
    blind = curve(20.0, **{"learner/explained_variance": [0.0] * 10})
    config = {"normalize_rewards": True, "vf_loss_coeff": 0.5}
    advice = {one.name: one.advice for one in diagnose([seen(blind, config)], [])}
    assert advice["values explain nothing"] == wording("config.vf_loss_coeff", "1.0")
