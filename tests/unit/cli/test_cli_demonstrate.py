"""``rlrun demonstrate``: files of episodes played by a function or a saved policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rlrun import DQN, PPO, R2D2, Training
from rlrun.cli.main import cli
from rlrun.engine.data.demonstrations import load_demonstrations
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_sets import demonstrations_at
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.demonstrating import demonstrate as record_demonstrations
from rlrun.engine.rollout.demonstrating import demonstrate_to_set

ROOT = Path(__file__).parents[3]
POSITIONS = {
    "id": "CartPole-v1",
    "wrappers": [{"id": "rlrun.plugin:PartialView", "kwargs": {"numbers": [0, 2]}}],
}


def demonstrate(*words: object) -> Result:
    return CliRunner().invoke(cli, ["demonstrate", *(str(word) for word in words)])


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works in examples/."""
    monkeypatch.chdir(ROOT / "examples")


def test_the_demonstrate_command_reproduces_the_shipped_demonstrations(tmp_path: Path, lab: None, wording) -> None:
    output = tmp_path / "shown.npz"
    env = "rlrun.toys:SparseMountainCar"
    words = ("--policy", "my_lab.mountain_car:push_along", "--env", env, "--episodes", 20)
    done = demonstrate(*words, "-o", output)
    assert done.exit_code == 0, done.output
    found = load_demonstrations(str(output))
    shipped = load_demonstrations(str(ROOT / "configs/mountaincar/demonstrations.npz"))
    assert (np.count_nonzero(~found.columns["valid"]), found.num_steps) == (20, shipped.num_steps)
    assert found.about == shipped.about
    for name, column in {**shipped.columns, **shipped.observations}.items():
        np.testing.assert_array_equal({**found.columns, **found.observations}[name], column)
    assert done.output == wording("20")
    assert found.about["returns"] == [1.0] * 20
    assert 100 < found.num_steps / 20 < 130


def test_recorded_demonstrations_match_what_happened_in_the_env(tmp_path: Path, lab: None) -> None:
    words = ("--policy", "my_lab.mountain_car:push_along", "--env", "MountainCar-v0", "--episodes", 2)
    demonstrate(*words, "-o", tmp_path / "shown.npz")
    found = load_demonstrations(str(tmp_path / "shown.npz"))
    columns, obs = found.columns, found.observations[""]
    lengths = [-int(value) for value in found.about["returns"]]
    assert columns["valid"].sum() == sum(lengths)
    assert np.flatnonzero(columns["terminateds"]).tolist() == [lengths[0] - 1, sum(lengths)]
    assert np.flatnonzero(~columns["valid"]).tolist() == [lengths[0], sum(lengths) + 1]
    assert set(columns["rewards"][columns["valid"]]) == {-1.0}
    assert obs[lengths[0], 0] >= 0.5  # the final observation is at the goal
    pushes = np.where(obs[:, 1] >= 0, 2, 0)
    np.testing.assert_array_equal(columns["actions"][columns["valid"]], pushes[columns["valid"]])


def test_demonstrations_of_a_saved_recurrent_policy_hold_the_actions_it_takes_when_asked(tmp_path: Path) -> None:
    with Training(POSITIONS, R2D2(model={"core_width": 8})) as training:
        checkpoint = training.save(tmp_path / "checkpoint")
        assert demonstrate(checkpoint, "--episodes", 2, "-o", tmp_path / "shown.npz").exit_code == 0
        found = load_demonstrations(str(tmp_path / "shown.npz"))
        assert found.observations[""].shape == (found.num_steps + 2, 2)
        first = True
        for valid, observation, action in zip(
            found.columns["valid"], found.observations[""], found.columns["actions"], strict=True
        ):
            if valid:
                assert training.act(observation, episode_start=first) == action
            first = not valid


def test_an_action_space_that_does_not_start_at_0_is_recorded_in_the_demonstrations() -> None:
    env = EnvConfig(id="rlrun.toys:ActionReward", kwargs={"num_actions": 3, "first_action": 5})
    shown, returns = record_demonstrations(lambda observation, starts, prev_reward: (np.int64(7), None), env, 2, seed=0)
    assert returns == [1.0, 1.0]
    assert shown.about["first_action"] == 5
    assert shown.columns["actions"].tolist() == [7, 7, 7, 7]


def test_demonstrating_into_a_folder_writes_a_data_set_with_the_same_episodes_as_a_file(
    tmp_path: Path, lab: None, wording
) -> None:
    words = ("--policy", "my_lab.mountain_car:push_along", "--env", "MountainCar-v0", "--episodes", 12)
    done = demonstrate(*words, "-o", tmp_path / "shown")
    assert done.exit_code == 0, done.output
    demonstrate(*words, "-o", tmp_path / "shown.npz")
    found, expected = demonstrations_at(str(tmp_path / "shown")), load_demonstrations(str(tmp_path / "shown.npz"))
    assert done.output == wording("12")
    valid = expected.columns["valid"]
    np.testing.assert_array_equal(found.columns["actions"][valid], expected.columns["actions"][valid])
    for name in ("rewards", "terminateds", "truncateds", "valid"):
        np.testing.assert_array_equal(found.columns[name], expected.columns[name])
    np.testing.assert_array_equal(found.observations[""], expected.observations[""])
    written = DataSet(tmp_path / "shown")
    assert len(written.manifest.files) == 2
    assert written.manifest.about == {"env": {"id": "MountainCar-v0"}, "seed": 0}
    assert "logp" not in written.manifest.columns  # a function has no known probabilities
    assert demonstrate(*words, "-o", tmp_path / "shown").exit_code == 2  # nothing is overwritten


def test_stored_log_probabilities_are_those_of_the_stored_env_actions(tmp_path: Path) -> None:
    with Training("Pendulum-v1", PPO(num_envs_per_worker=1, model={"hiddens": (4,)})) as training:
        checkpoint = training.save(tmp_path / "checkpoint")
        words = (checkpoint, "--episodes", 1, "--actions", "sampled", "-o", tmp_path / "shown")
        assert demonstrate(*words).exit_code == 0
        rows = DataSet(tmp_path / "shown").rows(np.arange(200))
        behavior = training.acting.policy().behavior()
        outputs = behavior.outputs(rows["obs"])
        own = behavior.action_space.from_env(rows["actions"])
    inside = np.abs(rows["actions"][:, 0]) < 2
    expected = behavior.action_space.log_prob(outputs, own) - np.log(2)  # torques are twice the policy's actions
    np.testing.assert_allclose(rows["logp"][inside], expected[inside], rtol=1e-4, atol=1e-5)
    assert 0 < inside.sum() < 200
    assert (rows["logp"][~inside] < 0).all()  # clipped actions have probabilities, not densities


def test_demonstrations_of_an_epsilon_greedy_policy_store_the_probabilities_of_its_actions(tmp_path: Path) -> None:
    with Training("CartPole-v1", DQN(num_envs_per_worker=1, epsilon=0.5, model={"hiddens": (4,)})) as training:
        checkpoint = training.save(tmp_path / "checkpoint")
        words = (checkpoint, "--episodes", 2, "--actions", "sampled", "-o", tmp_path / "shown")
        assert demonstrate(*words).exit_code == 0
        found = DataSet(tmp_path / "shown")
        rows = found.rows(found.rows_of_steps(np.arange(found.num_steps)))
        greedy = training.acting.policy().behavior().outputs(rows["obs"]).argmax(-1)
    np.testing.assert_allclose(np.exp(rows["logp"]), np.where(rows["actions"] == greedy, 0.75, 0.25), rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "either a CHECKPOINT or RUN"),
        (("run", "--policy", "a:b"), "either a CHECKPOINT or RUN"),
        (
            ("--policy", "my_lab.mountain_car:push_along"),
            "--env needs --policy; a saved policy always acts in its own env",
        ),
        (("--policy", "my_lab.mountain_car:pull", "--env", "MountainCar-v0"), "has no 'pull'"),
        (("--policy", "my_lab.mountain_car:np", "--env", "MountainCar-v0"), "must be a function"),
        (("run", "-o", "nowhere/shown.npz"), "does not exist"),
    ],
)
def test_invalid_arguments_are_refused_with_a_reason(words: tuple[str, ...], told: str, lab: None) -> None:
    done = demonstrate(*words)
    assert done.exit_code == 2
    assert told in done.output


def test_demonstrations_in_multi_agent_worlds_are_refused_with_a_message(tmp_path: Path, wording) -> None:
    env = "{world: 'rlrun.toys:CartPoles'}"
    done = demonstrate("--policy", "math:floor", "--env", env, "-o", tmp_path / "shown.npz")
    assert done.exit_code == 2
    assert done.output == wording("rlrun.toys:CartPoles")


def refuse_to_act(*_: object) -> tuple[object, None]:
    raise AssertionError("the demonstrator was asked")


def test_unstorable_spaces_and_unusable_folders_are_refused_before_the_demonstrator_acts(
    tmp_path: Path, wording
) -> None:
    nested = EnvConfig(id="rlrun.toys:MaskedConsole")
    with wording.raised(UsageError):
        record_demonstrations(refuse_to_act, nested, 1, 0)
    (tmp_path / "notes.txt").touch()
    with wording.raised(UsageError):
        demonstrate_to_set(tmp_path, refuse_to_act, EnvConfig(id="CartPole-v1"), 1, 0)
