"""Broken schedulers, searchers, populations and expectations, with the message for each; all mistakes at once."""

from pathlib import Path

import pytest

from rlrun.engine.messages.errors import SpecError
from rlrun.experiments.spec.load import load_experiments

pytestmark = pytest.mark.usefixtures("own_folder")

BASE = "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n"
SWEEP = f"{BASE}  num_samples: 4\n  config: {{gamma: {{uniform: [0.9, 0.99]}}}}\n"
"""The text before a case's lines: the first of them is line 7 and begins in column 3."""

PBT = "scheduler: {{pbt: {{interval_env_steps: 20_000, mutations: {}}}}}"
PB2 = "scheduler: {{pb2: {{interval_env_steps: 20_000, bounds: {}}}}}"
EXAMPLE = '{"lr": {"loguniform": [0.0001, 0.01]}}'
IN_MUTATIONS = "try.scheduler.pbt.mutations"
IN_BOUNDS = "try.scheduler.pb2.bounds"

SCHEDULERS = [
    ("scheduler: ahsa", ["7:14: try.scheduler: unknown scheduler 'ahsa'; did you mean 'asha'?"]),
    (
        "scheduler: 3\n  searcher: []",
        [
            "7:14: try.scheduler: must be the name of a scheduler or a mapping with one (asha, hyperband, "
            "median, bohb, "
            "pbt, pb2), not 3",
            "8:13: try.searcher: must be the name of a searcher or a mapping with one (optuna, bohb, random), not []",
        ],
    ),
    (
        "scheduler:\n    asha:\n    median:",
        ["8:5: try.scheduler: there can be only one scheduler, not 2: asha, median"],
    ),
    (
        "scheduler: {asha: {graceperiod: 1}}",
        ["7:22: try.scheduler.asha.graceperiod: unknown key 'graceperiod'; did you mean 'grace_period'?"],
    ),
    (
        "scheduler: {asha: {metric: episode_reward, mode: maximum, time_attr: steps, reduction_factor: 1, "
        "brackets: 0}}",
        [
            "7:30: try.scheduler.asha.metric: unknown metric 'episode_reward'; did you mean 'episode_return_mean'?",
            "7:52: try.scheduler.asha.mode: must be 'max' or 'min', not 'maximum'; did you mean 'max'?",
            "7:72: try.scheduler.asha.time_attr: must be 'env_steps', 'agent_steps', 'sgd_steps', 'iteration', "
            "'episodes' or 'time_total_s', not 'steps'; did you mean 'sgd_steps'?",
            "7:97: try.scheduler.asha.reduction_factor: must be a number > 1, not 1",
            "7:110: try.scheduler.asha.brackets: must be a whole number > 0, not 0",
        ],
    ),
    (
        "scheduler: {median: {metric: evaluation/episode_return_mean}}",
        [
            (
                "7:32: try.scheduler.median.metric: 'evaluation/episode_return_mean' is reported only with an "
                "evaluation: add, for example, evaluation: {every: 10}"
            )
        ],
    ),
    (
        "scheduler: {asha: {grace_period: 2e5}}",
        ["7:36: try.scheduler.asha.grace_period: must be below stop.env_steps (100,000), not 200,000"],
    ),
    (
        "scheduler: {hyperband: {max_t: 5e4, grace_period: 5e4}}",
        ["7:53: try.scheduler.hyperband.grace_period: must be below max_t (50,000), not 50,000"],
    ),
    (
        "scheduler: {asha: {time_attr: iteration}}",
        [("7:15: try.scheduler.asha.max_t: is required unless stop has iteration: set it, or add iteration to stop")],
    ),
    (
        "scheduler: {asha: {time_attr: iteration, max_t: 100, brackets: 3}}",
        [("7:66: try.scheduler.asha.brackets: the first rung of the last bracket, 100, must be below max_t (100)")],
    ),
    (
        "scheduler: {median: {grace_period: 2e5, min_samples_required: 4}}",
        [
            "7:38: try.scheduler.median.grace_period: must be below stop.env_steps (100,000), not 200,000",
            "7:65: try.scheduler.median.min_samples_required: must be below the number of trials (4), or none is ever "
            "stopped",
        ],
    ),
    (
        "scheduler: {median: {time_attr: time_total_s}}",
        [
            (
                "7:15: try.scheduler.median.grace_period: is required unless stop has time_total_s: set it, or "
                "add time_total_s to stop"
            )
        ],
    ),
    (
        "scheduler: bohb",
        [
            (
                "7:14: try.scheduler.bohb: needs the searcher of the same name: add searcher: bohb, or use "
                "scheduler: hyperband"
            )
        ],
    ),
    (
        "scheduler: bohb\n  searcher: {bohb: {metric: learner/kl, mode: min}}",
        [
            (
                "8:29: try.searcher.bohb.metric: the searcher and the scheduler bohb must have the same metric, "
                "not learner/kl and episode_return_mean"
            ),
            (
                "8:47: try.searcher.bohb.mode: the searcher and the scheduler bohb must have the same mode, not "
                "min and max"
            ),
        ],
    ),
]

SEARCHERS = [
    ("searcher: optna", ["7:13: try.searcher: unknown searcher 'optna'; did you mean 'optuna'?"]),
    (
        "searcher: bohb",
        [
            (
                "7:13: try.searcher.bohb: needs the scheduler of the same name: use scheduler: bohb with it, or "
                "searcher: optuna"
            )
        ],
    ),
    (
        "scheduler: asha\n  searcher: bohb",
        [
            (
                "8:13: try.searcher.bohb: needs the scheduler of the same name: use scheduler: bohb "
                "instead of the current one, or searcher: optuna"
            )
        ],
    ),
    (
        "searcher: {optuna: {metric: kl, max_concurrent: 0, startup_trials: 0}}",
        [
            "7:31: try.searcher.optuna.metric: unknown metric 'kl'; did you mean 'learner/kl'?",
            "7:51: try.searcher.optuna.max_concurrent: must be a whole number > 0 or null, not 0",
            "7:70: try.searcher.optuna.startup_trials: must be a whole number > 0, not 0",
        ],
    ),
    (
        PBT.format("{lr: {loguniform: [1e-5, 1e-3]}}") + "\n  searcher: optuna",
        [
            (
                "8:13: try.searcher: pbt chooses the settings itself: leave out the searcher, or use a scheduler "
                "such as asha"
            )
        ],
    ),
]

POPULATIONS = [
    (
        "scheduler: pbt",
        [f"7:14: {IN_MUTATIONS}: is missing; for example, {EXAMPLE}"],
    ),
    (
        "scheduler: {pbt: {mutations: {lr: {uniform: [0, 1]}}}}",
        [
            (
                "7:20: try.scheduler.pbt: set exactly one of interval_env_steps and interval_sgd_steps (for "
                "trials that learn only from data)"
            )
        ],
    ),
    (
        "scheduler: {pbt: {interval_sgd_steps: 20_000, mutations: {lr: {uniform: [0, 1]}}}}",
        ["7:41: try.scheduler.pbt.interval_sgd_steps: the trials step an env: use interval_env_steps"],
    ),
    (
        PBT.format("{}"),
        [f"7:60: {IN_MUTATIONS}: is empty; for example, {EXAMPLE}"],
    ),
    (
        PBT.format("{lrr: {uniform: [0, 1]}, hiddens: {choice: [[64], [32]]}, zzz: {uniform: [0, 1]}}"),
        [
            f"7:61: {IN_MUTATIONS}.lrr: unknown setting 'lrr'; did you mean 'lr'?",
            f"7:85: {IN_MUTATIONS}.hiddens: unknown setting 'hiddens'; did you mean 'model.hiddens'?",
            f"7:118: {IN_MUTATIONS}.zzz: unknown setting 'zzz'; see `rlrun config ppo`",
        ],
    ),
    (
        PBT.format("{config.lr: {uniform: [0, 1]}, env.kwargs.g: {uniform: [0, 1]}, lr.points: {uniform: [0, 1]}}"),
        [
            f"7:61: {IN_MUTATIONS}.config.lr: is relative to config: write 'lr'",
            f"7:91: {IN_MUTATIONS}.env.kwargs.g: must be below config",
            f"7:124: {IN_MUTATIONS}.lr.points: unknown setting 'lr.points'; see `rlrun config ppo`",
        ],
    ),
    (
        PBT.format("{num_workers: {choice: [0, 2]}}"),
        [
            f"7:61: {IN_MUTATIONS}.num_workers: cannot change in a population, because CPUs and GPUs are reserved "
            "when a trial starts"
        ],
    ),
    (
        PBT.format("{model.hiddens: {choice: [[64], [32]]}, normalize_observations: {choice: [true, false]}}"),
        [
            (
                f"7:61: {IN_MUTATIONS}.model.hiddens: cannot change in a population, because members copy each "
                f"other's weights"
            ),
            f"7:100: {IN_MUTATIONS}.normalize_observations: cannot change in a population, because members copy each "
            "other's weights",
        ],
    ),
    (
        PBT.format(
            "{lr: {uniform: [-1, 1]}, gae_lambda: {uniform: [0.9, 1.1]}, num_epochs: {uniform: [1, 9]}, "
            "model.activation: {choice: [relu, rellu]}}"
        ),
        [
            f"7:76: {IN_MUTATIONS}.lr.uniform.0: must be a number >= 0, not -1",
            f"7:113: {IN_MUTATIONS}.gae_lambda.uniform.1: must be a number >= 0 and <= 1, not 1.1",
            f"7:132: {IN_MUTATIONS}.num_epochs: uniform draws values such as 5.944, but each must be a whole "
            "number > 0; "
            "use randint",
            f"7:185: {IN_MUTATIONS}.model.activation.choice.1: must be 'tanh', 'relu', 'elu' or 'silu', not "
            "'rellu'; "
            "did you mean 'relu'?",
        ],
    ),
    (
        PBT.format(
            "{lr: [1e-3, 1e-4], clip_param: {unifrom: [0, 1]}, gae_lambda: 0.9, num_epochs: {grid_search: [1, 2]}, "
            "vf_loss_coeff: {uniform: [1]}}"
        ),
        [
            f"7:65: {IN_MUTATIONS}.lr: must be a search space: write {{choice: [...]}} around the values",
            f"7:91: {IN_MUTATIONS}.clip_param: unknown search space 'unifrom'; did you mean 'uniform'?",
            f"7:122: {IN_MUTATIONS}.gae_lambda: must be a search space (choice, uniform, quniform, loguniform, "
            "qloguniform, randint, qrandint, lograndint, normal), not 0.9",
            f"7:139: {IN_MUTATIONS}.num_epochs: mutations are random: write choice instead of grid_search",
            f"7:187: {IN_MUTATIONS}.vf_loss_coeff.uniform: takes 2 numbers (uniform: [low, high]), not [1]",
        ],
    ),
    (
        PBT.format("{minibatch_size: {randint: [64, 9999]}}"),
        [f"7:60: {IN_MUTATIONS}: minibatch_size (9998) must not exceed train_batch_size (2048)"],
    ),
    (
        PBT.format("{gamma: {uniform: [0.95, 0.96]}}"),
        [
            f"7:68: {IN_MUTATIONS}.gamma: config.gamma starts at 0.9, which is outside [0.95, 0.96]: change one of "
            "them, or leave it out to draw the start at random"
        ],
    ),
    (
        PBT.format("{lr: {uniform: [0, 1]}}").replace("20_000", "{uniform: [1, 2]}"),
        [
            (
                "7:41: try.scheduler.pbt.interval_env_steps: a search space is allowed only below config and "
                "env, and in the mutations of pbt"
            ),
        ],
    ),
    (
        "scheduler: {pbt: {interval_env_steps: 1000, quantile_fraction: 0.6, resample_probability: 2, "
        "perturbation_factors: [0.8, 1, 1.2], mutations: {lr: {uniform: [0, 2]}}}}",
        [
            "7:66: try.scheduler.pbt.quantile_fraction: must be a number > 0 and <= 0.5, not 0.6",
            "7:93: try.scheduler.pbt.resample_probability: must be a number >= 0 and <= 1, not 2",
            "7:118: try.scheduler.pbt.perturbation_factors: must be [a number > 0, a number > 0], not [0.8, 1, 1.2]",
        ],
    ),
    (
        PBT.format("{lr: {uniform: [0, 1]}}").replace("20_000", "1000"),
        [
            "7:41: try.scheduler.pbt.interval_env_steps: must be at least the env steps between two updates "
            "(2,048), not 1,000",
        ],
    ),
    (
        PBT.format("{train_batch_size: {choice: [2048, 32768]}}"),
        [
            "7:41: try.scheduler.pbt.interval_env_steps: must be at least the env steps between two updates "
            "(32,768), not 20,000",
        ],
    ),
    (
        PBT.format("{lr: {uniform: [0, 1]}}").replace("20_000", "100_000"),
        [
            (
                "7:41: try.scheduler.pbt.interval_env_steps: must be below stop.env_steps (100,000), not "
                "100,000, or no generation would ever end"
            ),
        ],
    ),
    (
        PB2.format("{lr: [1e-5, 1e-3], num_epochs: [1, 3], gae_lambda: [0.9, 1.1], entropy_coeff: [2, 1]}"),
        [
            f"7:76: {IN_BOUNDS}.num_epochs: pb2 supports only floating-point settings, and this must be a whole "
            f"number > 0: "
            "use pbt",
            f"7:114: {IN_BOUNDS}.gae_lambda.1: must be a number >= 0 and <= 1, not 1.1",
            f"7:135: {IN_BOUNDS}.entropy_coeff: low (2.0) must be below high (1.0)",
        ],
    ),
    (
        PB2.format("{lr: [1e-5, 1e-3], clip_param: [0, 0.3]}, log_scale: [lrr, clip_param]"),
        [
            f"7:89: {IN_BOUNDS}.clip_param.0: low must be > 0 for log_scale, not 0",
            (
                "7:111: try.scheduler.pb2.log_scale.0: must name one of the bounds: unknown name 'lrr'; did you "
                "mean 'lr'?"
            ),
        ],
    ),
    (PB2.format("{lr: {uniform: [0, 1]}}"), [f"7:62: {IN_BOUNDS}.lr: write [low, high]"]),
    (PB2.format("{lr: 3}"), [f"7:62: {IN_BOUNDS}.lr: must be [a number, a number], not 3"]),
]

OTHERS = [
    (
        "failure: {max_restarts: -1}\n  storage: ''\n  loggers: [wandv]",
        [
            "7:27: try.failure.max_restarts: must be a whole number >= 0, not -1",
            "8:12: try.storage: must be non-empty text or null, not ''",
            "9:12: try.loggers: unknown logger 'wandv'; did you mean 'wandb'?",
        ],
    ),
    (
        "expect: {episode_return_mean: 450, last_evaluations: 5}",
        ["2:3: try: expect.last_evaluations needs evaluations; add an `evaluation` section"],
    ),
    (
        "evaluation: {every: 2}\n  expect: {env_steps_per_s: 450, last_evaluations: 5}",
        [
            (
                "2:3: try: expect.last_evaluations supports only evaluation metrics (episode_return_mean, "
                "episode_return_std, episode_return_min, episode_return_max, episode_len_mean, "
                "evaluation/info/<name>), not env_steps_per_s"
            )
        ],
    ),
    (
        "expect: {episode_return_mean: 450, seeds: 3, passes: 4}",
        ["7:11: try.expect: passes (4) must not exceed seeds (3)"],
    ),
    (
        "expect: {episode_return_mean: 450, within_second: 3, within_env_steps: 0, seeds: 0, passes: 0}",
        [
            "7:38: try.expect.within_second: unknown metric 'within_second'; did you mean 'within_seconds'?",
            "7:74: try.expect.within_env_steps: must be a whole number > 0 or null, not 0",
            "7:84: try.expect.seeds: must be a whole number > 0 or null, not 0",
            "7:95: try.expect.passes: must be a whole number > 0 or null, not 0",
        ],
    ),
]

WITHOUT_A_SWEEP = [
    (
        "scheduler: asha",
        [("5:14: try.scheduler.asha: asha compares trials, but there is only one: add a search space and num_samples")],
    ),
    ("searcher: optuna", ["5:13: try.searcher: optuna has nothing to choose: add a search space below config or env"]),
    (
        "searcher: optuna\n  config: {lr: {grid_search: [1, 2]}, gamma: {uniform: [0, 1]}}",
        ["6:17: try.config.lr.grid_search: optuna chooses the values: write choice, or leave out searcher"],
    ),
    (
        "searcher: optuna\n  config: {gamma: {uniform: [0, 1]}}",
        ["5:13: try.searcher: optuna needs several suggestions: set num_samples above 1"],
    ),
    (
        PBT.format("{lr: {uniform: [0, 1]}}") + "\n  seeds: 3",
        [
            "5:20: try.scheduler.pbt: a population of one cannot learn from others: set num_samples to the number "
            "of members"
        ],
    ),
    (
        PBT.format("{lr: {uniform: [0.1, 1]}}") + "\n  num_samples: 3\n  config: {lr: [[0, 1e-3], [100, 0]]}",
        [
            f"5:65: {IN_MUTATIONS}.lr: config.lr starts at [[0, 0.001], [100, 0]], which is outside [0.1, 1]: "
            "change one of them, or leave it out to draw the start at random"
        ],
    ),
    (
        PBT.format("{model.activation: {choice: [relu, tanh]}}")
        + "\n  config: {model: {hiddens: {grid_search: [[1], [2]]}}}",
        [("6:29: try.config.model.hiddens: cannot vary in a population, because members copy each other's weights")],
    ),
    (
        PBT.format("{model.activation: {choice: [relu, tanh]}}")
        + "\n  config: {model: {grid_search: [{hiddens: [1]}, {hiddens: [2]}]}}",
        [
            f"5:61: {IN_MUTATIONS}.model.activation: is part of 'model', which is a search space in config",
            "6:19: try.config.model: cannot vary in a population, because members copy each other's weights",
        ],
    ),
]


def problems(text: str) -> list[str]:
    Path("spec.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_experiments(["spec.yaml"])
    return [str(problem).removeprefix("spec.yaml:") for problem in caught.value.problems]


@pytest.mark.parametrize(("lines", "messages"), [*SCHEDULERS, *SEARCHERS, *POPULATIONS, *OTHERS])
def test_mistakes_in_a_spec_with_a_sweep_are_reported_with_their_location(lines: str, messages: list[str]) -> None:
    assert problems(f"{SWEEP}  {lines}\n") == messages


@pytest.mark.parametrize(("lines", "messages"), WITHOUT_A_SWEEP)
def test_mistakes_in_a_spec_without_a_sweep_are_reported_with_their_location(lines: str, messages: list[str]) -> None:
    assert problems(f"{BASE}  {lines}\n") == messages


def test_mistakes_in_a_population_and_its_config_are_reported_together(wording) -> None:
    spec = f"{BASE}  config: {{lrr: 1, gamma: 2}}\n  {PBT.format('{lr: {uniform: [-1, 1]}}')}\n  seeds: 0\n"
    assert problems(spec) == wording(IN_MUTATIONS, "try.config.lrr", "try.config.gamma", "lr.uniform.0")


@pytest.mark.parametrize(
    "override",
    ["scheduler.asha.grace_period=1e4", "scheduler={asha: {grace_period: 1e4}}", "scheduler.asha={grace_period: 1e4}"],
)
def test_settings_of_a_scheduler_given_by_name_can_be_overridden(override: str) -> None:
    Path("spec.yaml").write_text(f"{SWEEP}  scheduler: asha\n")
    (made,) = load_experiments(["spec.yaml"], [override])
    assert made.scheduler is not None
    assert made.scheduler.to_data()["asha"]["grace_period"] == 10_000
