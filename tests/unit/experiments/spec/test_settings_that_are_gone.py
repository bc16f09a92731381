"""Settings of one algorithm that another refuses."""

from pathlib import Path

import pytest

from rlrun.engine.algorithm_config import AlgorithmConfig, InferenceConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import algorithm_class, algorithm_names
from rlrun.experiments.spec.load import load_experiments, parse_experiments

pytestmark = pytest.mark.usefixtures("own_folder")

OFF_POLICY = ("apex", "apex_ddpg", "ddpg", "dqn", "dreamer", "gorila", "mbpo", "qtopt", "r2d2", "r2d3", "sac", "td3")
GRADIENT_WORKERS = ("a3c", "async_dqn", "gorila")

REFUSED = [
    ("dreamer", "num_learners: 2", "its losses average over other steps than those that shares are weighted by"),
    ("gorila", "num_learners: 2", "gradients are computed on the workers' CPUs"),
    ("iql", "num_learners: 2", "minibatches of a data set are processed in one process"),
    ("maddpg", "num_learners: 2", "its losses average over the steps of each member, not over rows"),
    ("mbpo", "num_learners: 2", "the dynamics model is fitted in one process"),
    *((name, "microbatch_size: 8", "a minibatch from a replay buffer is used as a whole") for name in OFF_POLICY),
    *((name, "num_gpus: 1", "gradients are computed on the workers' CPUs") for name in GRADIENT_WORKERS),
    ("async_dqn", "normalize_observations: true", "workers learn from unnormalized observations"),
    ("async_dqn", "train_batch_size: 8", "each fragment yields one gradient; set rollout_fragment_length"),
    ("gorila", "noisy: true", "workers compute gradients without parameter noise"),
    ("ddppo", "num_learners: 2", "the rollout workers do the learning themselves"),
    ("ddppo", "asynchronous: true", "the rollout workers learn in lockstep"),
    ("impala", "seq_len: 8", "gradients flow through whole fragments; set rollout_fragment_length"),
    ("ddppo", "max_worker_restarts: 3", "the other workers cannot continue if one dies"),
]
POPULATION = "  num_samples: 2\n  scheduler: {pbt: {interval_env_steps: 1e4, mutations: {%s: {choice: [1, 2]}}}}\n"
WITHOUT_NETWORK = {"linucb", "lints", "q_learning", "random", "value_iteration"}
"""Algorithms without a network, and so without network settings."""


def problems(algorithm: str, config: str, further: str = "", overrides: tuple[str, ...] = ()) -> list[str]:
    file = Path("spec.yaml")
    entry = f"algorithm: {algorithm}\n  env: CartPole-v1\n  stop: {{env_steps: 1e5}}\n  config: {{{config}}}\n"
    file.write_text(f"try:\n  {entry}{further}")
    with pytest.raises(SpecError) as caught:
        load_experiments([file], overrides)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(("algorithm", "setting", "reason"), REFUSED)
def test_a_setting_with_only_one_possible_value_is_rejected_with_the_reason(
    algorithm: str, setting: str, reason: str, wording
) -> None:
    name = setting.partition(":")[0]
    assert problems(algorithm, setting) == wording(name, algorithm, reason, "spec.yaml:5:12", "try.config")
    assert name not in algorithm_class(algorithm).Config.model_fields


def test_rejected_settings_in_sections_and_populations_are_explained(wording) -> None:
    reason = "cannot be set for gorila, because gradients from workers carry no priorities"
    assert problems("gorila", "replay: {sampling: prioritized}") == [
        f"spec.yaml:5:21: try.config.replay.sampling: {reason}"
    ]
    assert problems("gorila", "", POPULATION % "replay.sampling") == [
        f"spec.yaml:7:58: try.scheduler.pbt.mutations.replay.sampling: {reason}"
    ]
    assert problems("a3c", "", POPULATION % "num_gpus") == wording(
        "spec.yaml:7:58", "try.scheduler.pbt.mutations.num_gpus"
    )


@pytest.mark.parametrize("algorithm", sorted({*OFF_POLICY, "async_dqn"} - {"dreamer"}))
def test_network_settings_that_an_algorithm_cannot_use_are_rejected(algorithm: str, wording) -> None:
    assert problems(algorithm, "model: {shared_value: true}") == wording(
        algorithm, "spec.yaml:5:20", "try.config.model.shared_value"
    )
    if algorithm not in ("sac", "mbpo"):
        assert problems(algorithm, "model: {use_sde: true}") == wording(
            algorithm, "spec.yaml:5:20", "try.config.model.use_sde"
        )


RECURRENT = {"ppo", "a2c", "a3c", "pg", "impala", "appo", "ddppo", "sac", "ddpg", "td3", "r2d2", "r2d3"} | {
    "redq",
    "tqc",
    "mappo",
    "vdn",
    "qmix",
    "es",
    "ars",
    "cmaes",
    "cem",
    "bc",
    "gail",
    "npg",
    "ppg",
    "trpo",
    "distill",
    "archer",
    "dpo",
    "filtered_bc",
    "grpo",
    "rloo",
    "reward_model",
    "rlhf",
}


@pytest.mark.parametrize("algorithm", sorted({*algorithm_names()} - RECURRENT - WITHOUT_NETWORK - {"dreamer"}))
@pytest.mark.parametrize("setting", ["core: lstm", "core_width: 8", "gtrxl: {layers: 2}"])
def test_the_error_for_a_memory_setting_lists_the_algorithms_that_have_memory(
    algorithm: str, setting: str, wording
) -> None:
    name = setting.partition(":")[0]
    assert problems(algorithm, f"model: {{{setting}}}") == wording(
        name, algorithm, "spec.yaml:5:20", "try.config.model"
    )


NOT_USED = {("gamma", 1.0), ("gamma", 0.0), ("precision", "float32"), ("lr", 1.0)} | {
    ("reward_scale", 1.0),
    ("num_envs_per_worker", 1),
    ("num_cpus_per_worker", 1.0),
    ("inference", InferenceConfig()),
}
"""Settings that algorithms without gradients or envs keep at a value without effect."""


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_common_settings_that_an_algorithm_rejects_have_a_neutral_value(algorithm: str) -> None:
    config = algorithm_class(algorithm).Config()
    for name in (set(config.refused) & set(AlgorithmConfig.model_fields)) - {"model"}:
        assert getattr(config, name) in (0, None, False) or (name, getattr(config, name)) in NOT_USED
    assert config.needs_ray is False


def test_a_population_may_change_the_size_of_minibatches() -> None:
    pbt = {"interval_env_steps": 1e4, "mutations": {"minibatch_size": {"choice": [16, 32]}}}
    entry = {"algorithm": "dqn", "env": "CartPole-v1", "stop": {"env_steps": 1e5}, "num_samples": 3}
    (experiment,) = parse_experiments({"try": {**entry, "scheduler": {"pbt": pbt}}})
    assert {trial.config.to_data()["minibatch_size"] for trial in experiment.trials()} <= {16, 32}
