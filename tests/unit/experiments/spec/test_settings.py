"""Single settings of trials by path, including those of policies."""

from __future__ import annotations

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.settings import settings_of, with_settings

LR = "policies.a.config.lr"
(FOUND,) = parse_experiments(
    {
        "try": {
            "env": {"world": "rlrun.toys:CartPoles"},
            "policies": {"a": {"algorithm": "ppo", "config": {"lr": {"grid_search": [0.1, 0.2]}}}},
            "config": {"num_envs_per_worker": 2},
            "stop": {"env_steps": 9},
        }
    }
)


def test_changing_a_setting_of_a_policy_also_updates_the_trials_params() -> None:
    first, _ = FOUND.trials()
    changed = with_settings(first, {LR: 0.5, "num_envs_per_worker": 4})
    assert settings_of(first, (LR, "num_envs_per_worker")) == {LR: 0.1, "num_envs_per_worker": 2}
    assert (changed.policies["a"].config.lr, changed.config.num_envs_per_worker) == (0.5, 4)
    assert changed.params == {"lr": 0.5, "num_envs_per_worker": 4}


def test_the_error_for_a_value_that_a_policy_rejects_gives_the_path_of_the_setting(wording) -> None:
    with wording.raised(SpecError, "policies.a.config.lr"):
        with_settings(FOUND.first_trial(), {LR: -1})
