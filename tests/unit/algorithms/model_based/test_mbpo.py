"""MBPO: SAC's losses on both kinds of transitions, which weights are sent, and bit-exact resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlrun
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.model_based.mbpo import MBPO
from rlrun.algorithms.model_based.policy import AGENT, DYNAMICS
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory

SMALL: dict[str, Any] = {
    "compile": False,
    "minibatch_size": 32,
    "learning_starts": 40,
    "min_env_steps_per_iteration": 60,
    "training_intensity": 0.5,
    "rollouts_per_env_step": 2,
    "real_ratio": 0.1,
    "model": {"hiddens": [8]},
    "dynamics": {"num_members": 3, "num_elites": 2, "hiddens": [8], "max_epochs": 2, "fit_interval": 25},
}
SCHEDULED = {"lr": 1e-3, "critic_lr": 1e-3, "alpha_lr": 1e-3, "dynamics_lr": 1e-3}


def mbpo_training(env: str = "Pendulum-v1", **settings: Any) -> rlrun.Training:
    return rlrun.Training(env, rlrun.MBPO(**{**SMALL, **settings}), seed=100)


def minibatch() -> SampleBatch:
    rng = np.random.default_rng(3)
    columns = {"obs": (32, 1, 3), "next_obs": (32, 1, 3), "actions": (32, 1, 1), "rewards": (32, 1)}
    return SampleBatch(
        {name: rng.standard_normal(shape, np.float32).clip(-0.9, 0.9) for name, shape in columns.items()},
        discounts=np.full((32, 1), 0.9, np.float32),
        weights=np.ones((32, 1), np.float32),
        valid=np.ones((32, 1), np.bool_),
    )


def test_a_minibatch_updates_the_agent_as_sac_does_and_leaves_the_model_unchanged() -> None:
    env = EnvConfig(id="Pendulum-v1")
    shared = {"model": SMALL["model"], "minibatch_size": 32}
    model_based = MBPO(MBPO.Config.parse({**SMALL, **shared}))
    ours = AlgorithmLearnerFactory(model_based, env, 1, "eager")()
    theirs = AlgorithmLearnerFactory(SAC(SAC.Config.parse(shared)), env, 1, "eager")()
    before = ours.flat()
    for _ in range(2):
        ours.step(minibatch(), scheduled=SCHEDULED, objectives=("critics", "actor", "alpha"))
        theirs.step(minibatch(), scheduled=SCHEDULED)
        ours.update_target(0.1, f"{AGENT}critics.")
        theirs.update_target(0.1, "critics.")
    start, size = ours.policy.parameters.range_under(AGENT)
    np.testing.assert_array_equal(ours.flat()[start : start + size], theirs.flat())
    start, size = ours.policy.parameters.range_under(DYNAMICS)
    np.testing.assert_array_equal(ours.flat()[start : start + size], before[start : start + size])


def test_workers_are_sent_only_the_actor() -> None:
    with mbpo_training() as training, rlrun.Training("Pendulum-v1", rlrun.SAC(model=SMALL["model"]), seed=100) as sac:
        weights = training.running.trainee.weights().acting
        np.testing.assert_array_equal(weights, sac.running.trainee.weights().acting)


def test_a_resumed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    with mbpo_training() as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = one.step()
        learner = one.running.trainee.learner
        parts = learner.flat(), learner.target(), *learner.optimizer_state().values()
    with rlrun.Training.restore(checkpoint) as other:
        result = other.step()
        again = other.running.trainee.learner
        for name in ("model_steps", "dynamics/holdout_error", "learner/critics/loss", "sgd_steps"):
            assert result[name] == expected[name]
        for part, same in zip(parts, (again.flat(), again.target(), *again.optimizer_state().values()), strict=True):
            np.testing.assert_array_equal(part, same)


def test_a_run_resumed_without_its_replay_buffer_collects_and_imagines_again(tmp_path: Path) -> None:
    with mbpo_training(replay={"save_in_checkpoints": False}) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
    with rlrun.Training.restore(checkpoint) as other:
        assert other.step()["model_replay/steps"] > 0


def test_training_works_with_discrete_actions_and_predicted_terminations() -> None:
    with mbpo_training("CartPole-v1") as training:
        assert np.isfinite(training.step()["dynamics/holdout_error"])


def test_with_a_fixed_temperature_alpha_is_not_reported() -> None:
    with mbpo_training(learn_alpha=False, initial_alpha=0.1) as training:
        assert "learner/alpha/alpha" not in training.step()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"real_ratio": 0.01}, r"real_ratio: 0\.01 of 32 transitions"),
        ({"replay": {"sampling": "prioritized"}}, "sampled uniformly"),
        (
            {"model": {"core": "gru"}},
            (
                "only on-policy algorithms, sac, redq, tqc, ddpg, td3, r2d2, r2d3, vdn, qmix, es, ars, cmaes, cem "
                "and bc support recurrent networks"
            ),
        ),
        ({"learning_starts": 5}, "learning_starts must be at least 20"),
        ({"n_step": 3}, "imagined transitions span single steps"),
        ({"normalize_observations": True}, "the ensemble normalizes observations itself"),
    ],
)
def test_incompatible_settings_are_refused_with_the_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        MBPO.Config.parse({**SMALL, **settings})


def test_the_share_of_collected_transitions_is_rounded_to_whole_transitions() -> None:
    assert MBPO.Config.parse({"minibatch_size": 256}).real_rows == 13
    assert MBPO.Config.parse({"minibatch_size": 32, "real_ratio": 0.1}).real_rows == 3
    assert MBPO.Config.parse({"real_ratio": 1.0}).real_rows == 256


def test_a_multi_agent_world_is_refused() -> None:
    with pytest.raises(UsageError, match="single-agent"):
        MBPO(MBPO.Config.parse({})).policy_in_world(None, None, 0)  # type: ignore[arg-type]
