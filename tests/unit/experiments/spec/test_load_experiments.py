import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from rlrun.engine.messages.errors import EnvironmentUnusable, SpecError
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from rlrun.experiments.spec.experiment import Experiment
from rlrun.experiments.spec.load import load_experiments, parse_experiments, shipped_configs, shipped_experiment

TWO = """\
one:
  algorithm: ppo
  env: CartPole-v1
  stop: {env_steps: 100_000}
  config: {lr: 1e-3, model: {hiddens: [64, 64]}}
two:
  algorithm: ppo
  env: {id: Pendulum-v1, wrappers: [NormalizeReward]}
  stop: {env_steps: 100_000}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    path = tmp_path / "spec.yaml"
    path.write_text(TWO)
    return path


def load(file: Path, *overrides: str) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in load_experiments([file], overrides)}


OF_TEAMS_OR_DATA = ("vdn", "qmix", "maddpg", "r2d3", "rlpd")


def with_replay() -> list[str]:
    """Names of the algorithms that fill a replay buffer from a single-agent env alone before they learn."""
    settings = {name: algorithm_class(name).Config().to_data() for name in BUILT_IN if name not in OF_TEAMS_OR_DATA}
    return [name for name, own in settings.items() if own.get("learning_starts", 0) > 0]


@pytest.mark.parametrize("algorithm", with_replay())
def test_a_spec_whose_run_stops_before_learning_starts_gets_a_warning(file: Path, algorithm: str, wording) -> None:
    def told(*overrides: str) -> list[str]:
        lines: list[str] = []
        load_experiments([file], overrides, tell=lines.append)
        return lines

    starts = algorithm_class(algorithm).Config().to_data()["learning_starts"]
    file.write_text(f"short: {{algorithm: {algorithm}, env: CartPole-v1, stop: {{env_steps: {starts}}}}}\n")
    assert told() == wording(f"{starts:,}", "stop.env_steps", "config.learning_starts")
    assert told(f"stop.env_steps={starts + 1}") == told("config.learning_starts=1000000", "stop={iteration: 3}") == []


@pytest.mark.parametrize(
    ("algorithm", "instead"), [("ppo", "use config.normalize_rewards instead"), ("sac", "set reward_scale instead")]
)
def test_the_warning_about_a_normalizing_wrapper_names_the_setting_to_use_instead(
    file: Path, algorithm: str, instead: str
) -> None:
    env, lines = "{id: Pendulum-v1, wrappers: [NormalizeReward, TimeAwareObservation]}", []
    file.write_text(f"own: {{algorithm: {algorithm}, env: {env}, stop: {{env_steps: 20_000}}}}\n")
    load_experiments([file], tell=lines.append)
    (line,) = lines
    assert line.startswith("warning: own: env.wrappers: ")
    assert "NormalizeReward" in line
    assert instead in line


def test_a_warning_is_given_if_a_scheduler_stops_trials_before_their_first_evaluation(file: Path, wording) -> None:
    def told(*overrides: str) -> list[str]:
        lines: list[str] = []
        load_experiments([file], overrides, tell=lines.append)
        return lines

    file.write_text(
        "sweep:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 100_000}\n"
        "  config: {lr: {grid_search: [1.0e-3, 1.0e-4]}, train_batch_size: 512}\n"
        "  scheduler: {asha: {grace_period: 10_000}}\n  evaluation: {every: 10}\n"
    )
    first = "before their first evaluation at"
    advice = "lower evaluation.every, or raise grace_period"
    assert told() == wording(first, advice, "env_steps", "10,000", "10,240")
    assert told("evaluation.every=9") == told("scheduler.asha.grace_period=10_240") == told("evaluation=null") == []
    by_iteration = "scheduler.asha={time_attr: iteration, max_t: 40, grace_period: 5}"
    assert told(by_iteration) == wording(first, advice, "10")
    assert told("scheduler={median: {grace_period: 9_000}}", "num_samples=1", "seeds=4") == wording(
        first, advice, "env_steps", "9,000", "10,240"
    )


def test_a_spec_file_may_hold_several_experiments(file: Path) -> None:
    loaded = load(file)
    assert list(loaded) == ["one", "two"]
    assert loaded["one"].origin == str(file)


def test_the_path_of_a_spec_file_may_be_given_as_a_string(file: Path) -> None:
    assert len(load_experiments([str(file)])) == 2


def test_an_override_without_an_experiment_name_applies_to_all_experiments(file: Path) -> None:
    assert [experiment.config.gamma for experiment in load(file, "config.gamma=0.9").values()] == [0.9, 0.9]


def test_an_override_with_an_experiment_name_applies_only_to_that_experiment(file: Path) -> None:
    loaded = load(file, "one.config.gamma=0.9")
    assert (loaded["one"].config.gamma, loaded["two"].config.gamma) == (0.9, 0.99)


def test_overrides_take_precedence_over_the_spec_file_and_the_file_over_defaults(file: Path) -> None:
    assert load(file)["two"].config.lr == 3e-4
    assert load(file)["one"].config.lr == 1e-3
    assert load(file, "config.lr=5e-3")["one"].config.lr == 5e-3
    assert load(file, "config.lr=5e-3", "config.lr=6e-3")["one"].config.lr == 6e-3


def test_an_override_changes_one_value_and_keeps_its_neighbors(file: Path) -> None:
    assert load(file, "config.model.activation=relu")["one"].config.model.hiddens == (64, 64)
    assert load(file, "one.config.model.hiddens.1=32", "two.stop.env_steps=5")["one"].config.model.hiddens == (64, 32)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seeds=[4]", (4,)),
        ("seeds=2", (0, 1)),
    ],
)
def test_values_of_overrides_are_parsed_as_yaml(file: Path, override: str, expected: tuple[int, ...]) -> None:
    assert load(file, override)["one"].seeds == expected


def test_an_override_can_set_a_search_space(file: Path) -> None:
    assert len(load(file, "one.config.lr={grid_search: [1e-3, 1e-4]}")["one"].trials()) == 2


def test_an_override_can_set_a_value_to_null(file: Path) -> None:
    assert load(file, "config.max_grad_norm=null")["one"].config.max_grad_norm is None
    assert load(file, "config.max_grad_norm=")["one"].config.max_grad_norm is None


def test_an_override_inside_an_env_given_by_name_keeps_the_id_of_the_env(file: Path) -> None:
    env = load(file, "one.env.kwargs.sutton_barto_reward=true")["one"].env
    assert (env.id, env.kwargs) == ("CartPole-v1", {"sutton_barto_reward": True})


def test_an_override_may_supply_a_required_setting_that_the_file_lacks(file: Path) -> None:
    file.write_text("one:\n  algorithm: ppo\n  env: CartPole-v1\n")
    assert load(file, "stop.env_steps=10")["one"].stop.bounds == {"env_steps": 10}


def test_experiment_names_may_contain_dots(file: Path) -> None:
    file.write_text(TWO.replace("two:", "one.b:"))
    loaded = load(file, "one.b.config.gamma=0.5")
    assert (loaded["one"].config.gamma, loaded["one.b"].config.gamma) == (0.99, 0.5)


def test_a_spec_can_name_modules_in_the_folder_of_its_file(file: Path) -> None:
    (file.parent / "lab_of_mine.py").write_text(
        textwrap.dedent("""\
            import gymnasium
            from pydantic import Field
            from rlrun.algorithms.ppo import PPO, PPOConfig
            from rlrun.engine.settings.config import PositiveInt
            from rlrun.engine.settings.metric import Metric

            class Config(PPOConfig):
                patience: PositiveInt = 3

            class Patient(PPO):
                Config = Config
                learner_metrics = (Metric("boredom", "", "How bored it is"),)

            def world():
                return gymnasium.make("CartPole-v1")
            """)
    )
    file.write_text(
        "mine:\n  algorithm: lab_of_mine:Patient\n  env: lab_of_mine:world\n"
        "  stop: {learner/boredom: 1}\n  config: {patience: 5}\n"
    )
    (experiment,) = load_experiments([file])
    assert experiment.config.to_data()["patience"] == 5
    (trial,) = experiment.trials()
    assert type(trial).from_data(trial.to_data()) == trial


def test_spec_data_from_python_may_hold_tuples_and_config_objects(file: Path) -> None:
    (given,) = [experiment for experiment in load(file).values() if experiment.name == "one"]
    entry = {"algorithm": "ppo", "env": given.env, "stop": {"env_steps": 5}, "config": {"model": {"hiddens": (8, 8)}}}
    (experiment,) = parse_experiments({"mine": entry}, ["config.gamma=0.5"])
    assert (experiment.env, experiment.config.model.hiddens, experiment.config.gamma) == (given.env, (8, 8), 0.5)


def test_mistakes_in_spec_data_from_python_are_reported_by_path_without_a_line(wording) -> None:
    with pytest.raises(SpecError) as caught:
        parse_experiments({"mine": {"algorithm": "ppo", "env": "CartPole-v1", "stop": {}, "config": {"lr": "fast"}}})
    assert [str(problem) for problem in caught.value.problems] == wording("mine.stop", "env_steps", "mine.config.lr")


def test_every_shipped_config_is_valid() -> None:
    configs = shipped_configs()
    assert len(configs) >= 8
    assert all(len(load_experiments([config])) >= 1 for config in configs)


def test_the_shipped_config_of_an_algorithm_and_env_is_found() -> None:
    experiment = shipped_experiment("ppo", "CartPole-v1", ["seeds=[3]"])
    assert experiment.origin.endswith("configs/cartpole/ppo.yaml")
    assert (experiment.env.id, experiment.algorithm, experiment.seeds) == ("CartPole-v1", "ppo", (3,))


@pytest.mark.parametrize(("algorithm", "env"), [("PPO", "CartPole-v1"), ("Dqn", "CartPole-v1"), ("SAC", "Pendulum-v1")])
def test_the_shipped_config_is_found_whether_the_algorithm_is_in_upper_or_lower_case(algorithm: str, env: str) -> None:
    assert shipped_experiment(algorithm, env) == shipped_experiment(algorithm.lower(), env)
    assert shipped_experiment(algorithm, env).origin.endswith(".yaml")


def test_without_a_shipped_config_defaults_are_used_and_reported(wording) -> None:
    experiment = shipped_experiment("ppo", "MountainCar-v0")
    assert experiment.name == "mountaincar-v0-ppo"
    assert experiment.stop.bounds == {"env_steps": 100_000}
    assert experiment.evaluation is not None
    assert (experiment.evaluation.every, experiment.evaluation.episodes) == (10, 20)
    assert experiment.origin == wording("MountainCar-v0", "stop", "100,000")


def test_evaluations_of_a_shipped_config_can_be_turned_off_by_an_override() -> None:
    assert shipped_experiment("ppo", "MountainCar-v0", ["evaluation=null"]).evaluation is None


def test_a_short_regression_spec_is_not_used_as_the_shipped_config_of_its_env(wording) -> None:
    assert any(path.parent.name == "regression" for path in shipped_configs())
    assert shipped_experiment("ppo", "rlrun.toys:NestedTuple").origin == wording()


def test_the_error_for_an_unknown_algorithm_or_env_on_the_command_line_suggests_the_closest_name(wording) -> None:
    with wording.raised(SpecError, "pppo"):
        shipped_experiment("pppo", "CartPole-v1")
    with wording.raised(SpecError, "CartPole-v1"):
        shipped_experiment("ppo", "CartPole")
    with pytest.raises(EnvironmentUnusable, match=r"pip install 'gymnasium\[jax\]'"):
        shipped_experiment("ppo", "phys2d/CartPole-v1")


def test_loading_a_spec_imports_neither_torch_nor_ray() -> None:
    # Tensor envs are left out: checking their factories imports modules that import torch.
    code = (
        "import sys\nfrom rlrun.experiments.spec.load import load_experiments, shipped_configs\n"
        "from rlrun.experiments.spec.schema import json_schema\n"
        "experiments = load_experiments([p for p in shipped_configs() if not p.stem.endswith('_tensors')])\n"
        "[e.trials() for e in experiments]\njson_schema()\n"
        "sys.exit(str([name for name in ('torch', 'ray') if name in sys.modules]) if "
        "{'torch', 'ray'} & sys.modules.keys() else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4])


def test_a_folder_stands_for_the_yaml_files_directly_inside_it_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "deeper/c.yaml", "notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name[0]}: {{algorithm: ppo, env: CartPole-v1, stop: {{iteration: 1}}}}\n")
    assert [experiment.name for experiment in load_experiments([tmp_path])] == ["a", "b"]


def test_a_class_with_an_import_path_may_be_used_in_data() -> None:
    entry = {"algorithm": "ppo", "env": CartPoleEnv, "stop": {"env_steps": 1_000}}
    (experiment,) = parse_experiments({"mine": entry})
    assert experiment.env.id == "gymnasium.envs.classic_control.cartpole:CartPoleEnv"


def test_a_class_without_an_import_path_is_rejected(wording) -> None:
    class Own(CartPoleEnv):  # type: ignore[misc]  # gymnasium is not type-checked
        pass

    with wording.raised(SpecError, "mine.env.id"):
        parse_experiments({"mine": {"algorithm": "ppo", "env": {"id": Own}, "stop": {"env_steps": 1_000}}})
