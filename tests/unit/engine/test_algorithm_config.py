import pytest

from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.settings.on_policy import OnPolicyConfig
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.engine.algorithm_config import SAMPLING, AlgorithmConfig, WorldSamplingSettings
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_learners": 2, "num_gpus": 3},
            r"num_gpus \(3\) must not exceed num_learners \(2\), because each learner uses one GPU",
        ),
        ({"num_learners": -1}, "num_learners"),
        ({"precision": "float16"}, "precision"),
        ({"num_envs_per_worker": 100_000_000}, "num_envs_per_worker.*1000000"),
    ],
    ids=str,
)
def test_impossible_learner_settings_are_refused(settings, message):
    with pytest.raises(SpecError, match=message):
        AlgorithmConfig.parse(settings)


@pytest.mark.parametrize(
    ("settings", "needs_ray"), [({}, False), ({"num_workers": 1}, True), ({"num_learners": 1}, True)]
)
def test_workers_and_learners_in_separate_processes_need_ray(settings, needs_ray):
    assert AlgorithmConfig.parse(settings).needs_ray is needs_ray


def test_learners_share_the_gpus_equally_and_get_one_cpu_per_torch_thread():
    config = AlgorithmConfig.parse({"num_learners": 4, "num_gpus": 2, "torch_threads": 3})
    assert (config.gpus_per_learner, config.cpus_per_learner) == (0.5, 3)
    assert AlgorithmConfig.parse({"num_gpus": 2}).gpus_per_learner == 0


def test_world_settings_contain_only_settings_for_collecting_experience(wording):
    assert tuple(WorldSamplingSettings.model_fields) == SAMPLING
    with wording.raised(SpecError, "lr", "policies.NAME.conf"):
        WorldSamplingSettings.parse({"lr": 0.1})


@pytest.mark.parametrize(
    ("config", "fragment_length", "env_steps"),
    [
        (OnPolicyConfig(train_batch_size=100, num_envs_per_worker=8), 13, 100),
        (OnPolicyConfig(train_batch_size=100, num_envs_per_worker=8, num_workers=2), 7, 100),
        (OnPolicyConfig(train_batch_size=100, rollout_fragment_length=20), 20, 100),
        (OnPolicyConfig(train_batch_size=4, num_envs_per_worker=8), 1, 4),
        (OffPolicyConfig(), 4, 4),
        (OffPolicyConfig(rollout_fragment_length=3, num_envs_per_worker=5, num_workers=2), 3, 30),
        (OffPolicyConfig(rollout_fragment_length=None), 1, 1),
        (WorkerGradientConfig(rollout_fragment_length=5, num_envs_per_worker=2), 5, 10),
    ],
)
def test_settings_determine_fragment_length_and_env_steps_per_update(config, fragment_length, env_steps):
    assert (config.fragment_length, config.env_steps_per_update) == (fragment_length, env_steps)


def test_sgd_steps_per_env_step_follow_from_batch_size_or_training_intensity():
    assert OnPolicyConfig(train_batch_size=100).sgd_steps_per_env_step == 1 / 100
    assert OffPolicyConfig(training_intensity=0.5).sgd_steps_per_env_step == 0.5
    assert WorkerGradientConfig(rollout_fragment_length=5, num_envs_per_worker=2).sgd_steps_per_env_step == 1 / 10


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_algorithms_that_step_envs_and_no_others_have_a_minimum_of_env_steps_per_iteration(name: str) -> None:
    algorithm = algorithm_class(name)
    least = algorithm.Config.parse({}).min_env_steps_per_iteration
    assert least >= 100 if algorithm.clock_unit == "env_steps" else least == 0


@pytest.mark.parametrize(
    ("algorithm", "capacity"),
    [("sac", 10**6), ("ddpg", 10**6), ("td3", 10**6), ("apex_ddpg", 10**6), ("dqn", 10**5), ("qtopt", 10**5)],
)
def test_default_replay_capacity_is_a_million_for_actor_critics_and_smaller_for_q_learning(
    algorithm: str, capacity: int
) -> None:
    assert algorithm_class(algorithm).Config.parse({}).to_data()["replay"]["capacity"] == capacity
