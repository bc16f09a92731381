"""Entries with several policies: what is accepted, what is refused at which line, and what may vary."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlrun.algorithms.dqn.dqn import DQNConfig
from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.explain import Mistake
from rlrun.experiments.spec.experiment import Experiment, TrialSpec
from rlrun.experiments.spec.learning import check_learning
from rlrun.experiments.spec.load import load_experiments, parse_experiments

POLES = {"world": "rlrun.toys:CartPoles"}
ENTRY: dict[str, Any] = {
    "env": POLES,
    "policies": {
        "a": {"algorithm": "ppo", "config": {"lr": 1e-3, "train_batch_size": 64, "minibatch_size": 32}},
        "b": {"algorithm": "dqn", "config": {"learning_starts": 20}, "slots": 1},
    },
    "mapping": {"pole_0": "a", "*": "b"},
    "config": {"num_envs_per_worker": 2},
    "stop": {"env_steps": 200},
}
SPEC = """\
try:
  env: {world: "rlrun.toys:CartPoles"}
  stop: {env_steps: 200}
"""


def experiment(**changed: Any) -> Experiment:
    (found,) = parse_experiments({"try": {**ENTRY, **changed}})
    return found


def with_settings_of(policy: str, **settings: Any) -> dict[str, Any]:
    policies = json.loads(json.dumps(ENTRY["policies"]))
    policies[policy]["config"] |= settings
    return {"policies": policies}


def told(lines: str, tmp_path: Path, *overrides: str) -> list[str]:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC + "".join(f"  {line}\n" for line in lines.splitlines()))
    with pytest.raises(SpecError) as caught:
        load_experiments([path], overrides)
    return [
        f"{problem.line}:{problem.column}: {problem.path.removeprefix('try.')}: {problem.message}"
        for problem in caught.value.problems
    ]


def test_each_policy_has_its_own_algorithm_and_the_top_level_config_controls_collection() -> None:
    (trial,) = experiment().trials()
    assert trial.algorithm == "ppo + dqn"
    assert isinstance(trial.policies["a"].config, PPOConfig)
    assert isinstance(trial.policies["b"].config, DQNConfig)
    assert (trial.config.num_envs_per_worker, trial.config.min_env_steps_per_iteration) == (2, 1000)
    learns = trial.learns
    assert (list(learns.algorithms), learns.trained, dict(learns.slots)) == (["a", "b"], ("a", "b"), {"b": 1})


def test_with_one_algorithm_all_agents_of_a_world_share_one_policy() -> None:
    (found,) = parse_experiments({"try": {"env": POLES, "algorithm": "ppo", "stop": {"env_steps": 9}}})
    learns = found.first_trial().learns
    assert (learns.is_alone, list(learns.algorithms)) == (True, ["default"])


def test_a_trial_of_several_policies_round_trips_and_its_policies_hold_no_collection_settings() -> None:
    (trial,) = experiment(**with_settings_of("b", lr=[[0, 1e-3], ["end", 0]])).trials()
    data = json.loads(json.dumps(trial.to_data()))
    assert TrialSpec.from_data(data) == trial == pickle.loads(pickle.dumps(trial))
    assert "num_workers" not in data["policies"]["a"]["config"]
    assert data["policies"]["b"]["config"]["lr"] == [[0, 1e-3], [200, 0]]
    assert trial.learns.from_data(data).to_data() == trial.learns.to_data()


def test_an_experiment_is_the_same_after_a_round_trip_through_its_entry() -> None:
    found = experiment(train=["a"])
    (again,) = parse_experiments({"try": json.loads(json.dumps(found.to_data()))})
    assert again.trials() == found.trials()
    assert again.to_data() == found.to_data()


def test_search_spaces_in_policies_are_expanded_and_get_the_shortest_unique_names() -> None:
    found = experiment(**with_settings_of("a", lr={"grid_search": [1e-3, 1e-4]}))
    assert [trial.name for trial in found.trials()] == ["000-lr=0.001-seed=0", "001-lr=0.0001-seed=0"]
    assert [trial.policies["a"].config.lr for trial in found.trials()] == [1e-3, 1e-4]
    assert [trial.trials_sharing_update for trial in found.trials()] == [2, 2]
    both = json.loads(json.dumps(ENTRY["policies"]))
    for policy in both.values():
        policy["config"]["lr"] = {"uniform": [1e-4, 1e-3]}
    assert set(experiment(policies=both).param_names().values()) == {"a.config.lr", "b.config.lr"}


def test_overrides_can_change_settings_of_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{SPEC}  policies: {{a: {{algorithm: ppo}}}}\n")
    (found,) = load_experiments([path], ["policies.a.config.lr=1e-4"])
    assert found.policies["a"].config.lr == 1e-4


def test_a_population_refers_to_settings_of_policies_by_full_paths() -> None:
    pbt = {"interval_env_steps": 64, "mutations": {"policies.a.config.lr": {"uniform": [1e-4, 1e-3]}}}
    found = experiment(scheduler={"pbt": pbt}, num_samples=2)
    assert list(found.mutated()) == [("policies", "a", "config", "lr")]
    assert list(found.param_names().values()) == ["lr"]


MUTATIONS = "scheduler.pbt.mutations"


def test_pb2_and_searchers_can_tune_settings_of_policies() -> None:
    pb2 = {"interval_env_steps": 64, "bounds": {"policies.b.config.lr": [1e-4, 1e-3]}, "log_scale": []}
    first = experiment(scheduler={"pb2": pb2}, num_samples=2).first_trial()
    assert 1e-4 <= first.policies["b"].config.lr <= 1e-3
    searched = experiment(**with_settings_of("a", gamma={"uniform": [0.9, 0.99]}), searcher="optuna", num_samples=3)
    assert (searched.searches, list(searched.spaces())) == (True, [("policies", "a", "config", "gamma")])
    values = {("policies", "a", "config", "gamma"): 0.95}
    assert searched.trial(values, index=0, configuration=0, seed=0).policies["a"].config.gamma == 0.95


SAMPLING = "the policies of a world share envs and workers; set it under the experiment's `config`"


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (
            "algorithm: ppo\npolicies: {a: {algorithm: ppo}}",
            ["4:3: algorithm: each policy has its own algorithm: leave out algorithm, or policies"],
        ),
        (
            "policies: {a: {algorithm: ppo, config: {num_workers: 2}}}",
            [f"4:43: policies.a.config.num_workers: cannot be set for ppo, because {SAMPLING}"],
        ),
        (
            "policies: {a: {algorithm: ppo}}\nconfig: {lr: 0.1}",
            ["5:12: config.lr: 'lr' is a setting of a policy; it belongs under policies.a.config"],
        ),
        (
            "policies: {a: {algorithm: ppo, slot: 2, slots: 0}}",
            [
                "4:34: policies.a.slot: unknown key 'slot'; did you mean 'slots'?",
                "4:50: policies.a.slots: must be a whole number > 0 or null, not 0",
            ],
        ),
        (
            "policies: {a: {algorithm: ppo, lr: 2}}",
            ["4:34: policies.a.lr: 'lr' belongs under policies.a.config"],
        ),
        (
            "policies: {a: {algorithm: ppoo}}",
            ["4:29: policies.a.algorithm: unknown algorithm 'ppoo'; did you mean 'ppo'?"],
        ),
        (
            "policies: {a: {algorithm: ppo, config: {lr: {uniform: [-1, 1]}}}}",
            [
                "4:58: policies.a.config.lr.uniform.0: must be a number >= 0, not -1",
            ],
        ),
        (
            "policies: {a: {algorithm: ppo}, b: {algorithm: ppo}}",
            [
                (
                    "4:13: policies: with 2 policies (a, b), a mapping is required: map agents to policies with "
                    "patterns of agent ids, or with package.module:function"
                )
            ],
        ),
        (
            "policies: {a: {algorithm: ppo}}\nmapping: {x: b}\ntrain: [c]",
            [
                ("5:16: mapping.x: names 'b', which is not a policy; must be one of: a"),
                "6:11: train.0: must name a policy: unknown name 'c'; must be one of: a",
            ],
        ),
        (
            "policies: {a.b: {algorithm: ppo}}",
            [
                (
                    "4:14: policies.a.b: the policy name 'a.b' must consist of letters, digits and _-, because "
                    "metrics are named after it"
                )
            ],
        ),
        (
            "policies: []",
            ["4:13: policies: must be a mapping of names to policies, each with an algorithm, not []"],
        ),
        (
            "policies: {a: {algorithm: ppo}}\ncheckpoint: {best: policies/b/episode_return_mean}",
            [
                (
                    "5:22: checkpoint.best: unknown metric 'policies/b/episode_return_mean'; did you mean "
                    "'policies/a/episode_return_mean'?"
                )
            ],
        ),
        (
            "policies: {a: {algorithm: ppo}}\nexpect: {evaluation/policies/a/episode_return_mean: 1}",
            [
                (
                    "5:12: expect.evaluation/policies/a/episode_return_mean: "
                    "'evaluation/policies/a/episode_return_mean' is reported only with an evaluation: add, for "
                    "example, evaluation: {every: 10}"
                )
            ],
        ),
        (
            "policies: {a: {algorithm: ppo}}\nnum_samples: 2\nscheduler:\n  pbt:\n"
            "    interval_env_steps: 99\n    mutations:\n"
            "      lr: {uniform: [0, 1]}\n      policies.b.config.lr: {uniform: [0, 1]}\n"
            "      policies.a.config.lrr: {uniform: [0, 1]}\n"
            "      policies.a.config.model.hiddens: {choice: [[8], [9]]}",
            [
                f"10:9: {MUTATIONS}.lr: cannot be set here, because it controls how a policy learns; set it under "
                "policies.NAME.config",
                f"11:9: {MUTATIONS}.policies.b.config.lr: must be a setting of a policy, such as "
                "policies.a.config.lr; did you mean 'policies.a.config.lr'?",
                f"12:9: {MUTATIONS}.policies.a.config.lrr: unknown setting 'policies.a.config.lrr'; "
                "did you mean 'policies.a.config.lr'?",
                f"13:9: {MUTATIONS}.policies.a.config.model.hiddens: cannot change in a population, "
                "because members copy each other's weights",
            ],
        ),
    ],
)
def test_mistakes_in_policies_are_reported_with_their_line(lines: str, messages: list[str], tmp_path: Path) -> None:
    assert told(lines, tmp_path) == messages


def test_policies_are_rejected_without_a_world_and_a_mapping_without_policies(wording) -> None:
    in_env = check_learning({**ENTRY, "env": "CartPole-v1"}).mistakes
    assert [mistake.location for mistake in in_env] == [("env",)]
    assert in_env[0].message == wording()
    alone = check_learning({"algorithm": "ppo", "env": POLES, "mapping": {"*": "a"}}).mistakes
    assert alone == [Mistake(("mapping",), wording("mapping"), True)]


def test_mistakes_in_the_world_of_an_evaluation_are_reported_at_its_line(tmp_path: Path) -> None:
    lines = "algorithm: ppo\nevaluation: {env: {world: 'rlrun.toys:CartPole'}}"
    (message,) = told(lines, tmp_path)
    assert message.startswith("5:29: evaluation.env.world: ")
    assert "did you mean" in message
