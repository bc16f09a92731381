"""Runs that are recorded know the log-probabilities of exploratory actions too, and learn as if they did not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.actor_q.ddpg import DDPG, TD3
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dagger.dagger import DAgger
from rlrun.algorithms.dqn.apex import Apex
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.datasets.layout import LOGP
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.policy.action_spaces.box import BoxScale, DeterministicBoxActions
from rlrun.engine.policy.exploration.action_noise import ActionNoise
from rlrun.engine.policy.log_probs_in_env import behavior_log_probs
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig

MODEL = {"hiddens": [8], "orthogonal_init": False}
SCHEDULES: dict[str, Any] = {"epsilon": 0.4, "temperature": 0.5, "exploration_noise": 0.6, "beta": 0.5}
STARTS = 40
"""Env steps of uniform actions, of the algorithms that have them."""


def worker_of(algorithm: Algorithm[Any], *, records: bool = True, env_steps: int = STARTS) -> RolloutWorker:
    env = EnvConfig(id="CartPole-v1" if isinstance(algorithm, DQN | DAgger) else "Pendulum-v1", max_episode_steps=25)
    policy = algorithm.policy(spaces_of(env), 1)
    config = WorkerConfig(
        env=env,
        num_envs=3,
        fragment_length=40,
        seed=7,
        behaviors={"default": policy.behavior()},
        rewards={"default": RewardSettings(0.9)},
        num_workers=1,
        records=records,
    )
    worker = RolloutWorker(config)
    start, size = policy.acting_range
    acting = policy.parameters.gather(policy.module).numpy()[start : start + size]
    worker.follow(Orders({"default": Weights(0, acting, env_steps=env_steps, schedules=SCHEDULES)}))
    return worker


def log_probs_and_outputs(
    algorithm: Algorithm[Any], **more: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, RolloutWorker]:
    """Log-probabilities, own actions and network outputs of all steps of a fragment, in slots [T, B]."""
    worker = worker_of(algorithm, **more)
    rollout = worker.sample()
    columns, batch = rollout.raw["default"].columns, rollout.batches["default"]
    behavior = worker_of(algorithm).behaviors["default"]
    outputs = np.stack([behavior.outputs(seen) for seen in batch["obs"][:-1]])  # type: ignore[attr-defined]
    return np.where(batch["valid"], columns[LOGP], 0), batch["actions"], outputs, worker


def mixed(epsilon: Any, preferred: np.ndarray) -> np.ndarray:
    """Log-probabilities of one of two actions, uniform with probability epsilon."""
    result: np.ndarray = np.log(epsilon / 2 + (1 - epsilon) * preferred)
    return result


@pytest.mark.parametrize(("algorithm", "epsilons"), [(DQN(model=MODEL), 0.4), (Apex(model=MODEL), None)])
def test_epsilon_greedy_actions_have_the_probability_given_by_the_epsilon_of_their_env_slot(
    algorithm: Any, epsilons: float | None
) -> None:
    found, actions, outputs, _ = log_probs_and_outputs(algorithm)
    own = np.array([0.4 ** (1 + 7 * slot / 2) for slot in range(3)]) if epsilons is None else epsilons
    expected = mixed(own, actions == outputs.argmax(-1))
    np.testing.assert_allclose(found[found != 0], expected[found != 0], rtol=1e-6)
    assert len(np.unique(found[found != 0])) >= 2


def test_soft_q_actions_have_the_probability_given_by_the_epsilon_mixed_softmax() -> None:
    found, actions, outputs, _ = log_probs_and_outputs(DQN(model=MODEL, exploration="soft_q"))
    preferred = np.take_along_axis(np.exp(log_softmax(outputs / np.float32(0.5))), actions[..., None], -1)[..., 0]
    np.testing.assert_allclose(found[found != 0], mixed(0.4, preferred)[found != 0], rtol=1e-5)


@pytest.mark.parametrize("family", [SAC, TD3])
def test_continuous_actions_have_densities_in_env_units_and_are_uniform_before_learning_starts(family: Any) -> None:
    algorithm = family(model=MODEL, learning_starts=STARTS)
    found, actions, outputs, worker = log_probs_and_outputs(algorithm)
    expected = behavior_log_probs(worker.behaviors["default"], outputs, actions)  # type: ignore[arg-type]
    np.testing.assert_allclose(found[found != 0], expected[found != 0], rtol=1e-4, atol=1e-5)
    early, *_ = log_probs_and_outputs(algorithm, env_steps=0)
    np.testing.assert_allclose(early[early != 0], -np.log(4), rtol=1e-6)  # torques are uniform between -2 and 2


def test_clipped_noise_has_a_density_within_the_bounds_and_its_remaining_probability_on_them() -> None:
    env = spaces_of(EnvConfig(id="Pendulum-v1"))
    exploration = ActionNoise(DeterministicBoxActions(BoxScale(env.action)))
    exploration.std = 0.7
    behavior = SimpleNamespace(exploration=exploration)
    inside = np.linspace(-1, 1, 20_001, dtype=np.float32)[1:-1, None]
    outputs = np.full((len(inside), 1), 0.5, np.float32)
    density = np.exp(behavior_log_probs(behavior, outputs, inside).astype(np.float64))  # type: ignore[arg-type,union-attr]
    on_bounds = np.exp(behavior_log_probs(behavior, outputs[:2], np.float32([[-1], [1]])))  # type: ignore[arg-type]
    assert on_bounds.min() > 0.01
    assert density.sum() * 4 / 20_000 + on_bounds.sum() == pytest.approx(1, abs=1e-3)
    exploration.std = 0.0
    assert behavior_log_probs(behavior, outputs[:2], inside[:2]).tolist() == [0, 0]  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize("algorithm", [DQN(model=MODEL), Apex(model=MODEL), SAC(learning_starts=0), TD3(), DDPG()])
@pytest.mark.parametrize("env_steps", [0, STARTS])
def test_recording_does_not_change_a_single_bit_of_the_fragments(algorithm: Any, env_steps: int) -> None:
    workers = [worker_of(algorithm, records=records, env_steps=env_steps) for records in (False, True)]
    for _ in range(2):
        expected, found = (worker.sample().batches["default"] for worker in workers)
        assert found.keys() == expected.keys()
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column, err_msg=name)


@pytest.mark.parametrize(
    "algorithm",
    [
        DQN(model=MODEL, noisy=True),
        DQN(model=MODEL, exploration="parameter_noise"),
        TD3(exploration="ornstein_uhlenbeck"),
        DAgger(expert="rlrun.toys:nobody"),
    ],
)
def test_actions_with_parameter_or_correlated_noise_or_of_an_expert_have_no_log_probability(algorithm: Any) -> None:
    behavior = worker_of(algorithm).behaviors["default"]
    assert not {"outputs", "taken_logp"} & behavior.collector.allocate(2, 3).keys()
