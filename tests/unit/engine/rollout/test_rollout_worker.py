import subprocess
import sys

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.engine.data.tree import named_leaves
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings, RewardTransform
from rlrun.engine.rollout.rollout_worker import FragmentNoise, RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.toys.known_optimum import ConstantReward
from tests.policies import plain_policy
from tests.rounding import rounding_error

SLOTS, ACTIONS = 2, 2

CARTPOLE = EnvConfig(id="CartPole-v1")


def worker_for(
    env=CARTPOLE, *, num_envs=3, length=50, seed=7, index=0, normalize=False, clip=None, scale=False, **more
):
    observation_space, action_space = spaces_of(env)
    policy = plain_policy(
        ActorCriticPolicy,
        observation_space,
        action_space,
        ModelConfig(hiddens=(8,)),
        normalize_observations=normalize,
        seed=1,
    )
    worker = RolloutWorker(
        WorkerConfig(
            env=env,
            num_envs=num_envs,
            fragment_length=length,
            seed=seed,
            behaviors={"default": policy.behavior()},
            rewards={"default": RewardSettings(0.9, RewardScale(clip=clip), scale)},
            worker_index=index,
            **more,
        )
    )
    worker.follow(Orders({"default": Weights(4, policy.parameters.gather(policy.module).numpy())}))
    return worker


def assert_equal_batches(first, second):
    assert list(first) == list(second)
    for (name, left), (_, right) in zip(named_leaves(dict(first)), named_leaves(dict(second)), strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)


class Drifting(ConstantReward):
    """Shows a given observation from some step of each episode on, or of one seed's; episodes have seven steps."""

    def __init__(self, value, from_step, in_seed=None):
        super().__init__(episode_len=7)
        self.observation_space = Discrete(3) if isinstance(value, int) else Box(-1.0, 1.0, (1,))
        self.value, self.from_step, self.in_seed = value, from_step, in_seed

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.seed = seed
        return (0 if isinstance(self.value, int) else observation), info

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        wrong = self._elapsed >= self.from_step and self.in_seed in (None, self.seed)
        good = 0 if isinstance(self.value, int) else np.zeros(1, np.float32)
        bad = self.value if isinstance(self.value, int) else np.full(1, self.value, np.float32)
        return (bad if wrong else good), reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "the observation contains NaN"),
        (float("inf"), "the observation contains infinite numbers"),
        (3, r"the observation contains 3, which is outside Discrete\(3\)"),
    ],
)
@pytest.mark.parametrize(("from_step", "step"), [(2, 2), (5, 5), (7, 7)])
def test_an_invalid_observation_raises_an_env_error_that_names_worker_env_episode_and_step(
    value, said, from_step, step
):
    env = EnvConfig(id=f"{__name__}:Drifting", kwargs={"value": value, "from_step": from_step})
    worker = worker_for(env, num_envs=2, length=7, index=2)
    seed = EpisodeSeeds(7, 2).seed(0, 0)
    place = rf"worker 2, env 0, episode 0 with seed {seed}, step {step}\)?: "
    with pytest.raises(EnvError, match=place + said):
        worker.sample()


# With 12 steps, the fragment ends before episode 1 does; with 20, after it. With 5, the episode begins and ends in
# different fragments.
@pytest.mark.parametrize("length", [5, 12, 20])
@pytest.mark.parametrize(("episode", "step"), [(0, 3), (0, 7), (1, 1), (1, 7)])
def test_an_invalid_observation_is_reported_with_seed_and_step_even_once_its_episode_has_ended(length, episode, step):
    seed = EpisodeSeeds(7, 0).seed(1, episode)
    drift = {"value": float("nan"), "from_step": step, "in_seed": seed}
    worker = worker_for(EnvConfig(id=f"{__name__}:Drifting", kwargs=drift), num_envs=2, length=length)
    told = rf"worker 0, env 1, episode {episode} with seed {seed}, step {step}: the observation contains NaN"
    with pytest.raises(EnvError, match=told):
        [worker.sample() for _ in range(4)]


def test_an_invalid_observation_in_an_episode_with_a_chosen_seed_is_reported_with_that_seed(wording):
    drift = {"value": float("nan"), "from_step": 7, "in_seed": 33}
    worker = worker_for(EnvConfig(id=f"{__name__}:Drifting", kwargs=drift), num_envs=2, length=20)
    worker.begin([32, 33])
    with wording.raised(EnvError, "NaN", "33"):
        worker.sample()


def test_the_columns_of_a_fragment_have_the_expected_shapes():
    rollout = worker_for().sample()
    batch = rollout.batches["default"]
    shapes = {name: leaf.shape for name, leaf in batch.items()}
    assert shapes == {
        "actions": (50, 3),
        "values": (51, 3),
        "obs": (51, 3, 4),
        "rewards": (50, 3),
        "terminateds": (50, 3),
        "truncateds": (50, 3),
        "valid": (50, 3),
        "logp": (50, 3),
    }
    assert rollout.env_steps == batch["valid"].sum() < 150
    assert rollout.weights_versions == {"default": 4}


def test_the_row_after_an_episode_end_is_invalid_and_holds_the_final_observation():
    worker = worker_for(length=200)
    fragments = [worker.sample().batches["default"] for _ in range(2)]
    ends = np.concatenate([batch["terminateds"] | batch["truncateds"] for batch in fragments])
    valid = np.concatenate([batch["valid"] for batch in fragments])
    assert valid[0].all()
    np.testing.assert_array_equal(valid[1:], ~ends[:-1])
    observations = np.concatenate([fragments[0]["obs"][:-1], fragments[1]["obs"]])
    final = observations[1:][ends]
    assert (np.abs(final[:, 2]) > 0.2095).sum() + (np.abs(final[:, 0]) > 2.4).sum() >= len(final)
    first = observations[1:][~valid]
    assert (np.abs(first) <= 0.05).all()


@pytest.mark.parametrize(
    ("env", "name", "other"),
    [
        (EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 3}), "truncateds", "terminateds"),
        (EnvConfig(id="rlrun.toys:AsymmetricBox"), "terminateds", "truncateds"),
    ],
)
def test_terminations_and_truncations_are_recorded_in_separate_columns(env, name, other):
    batch = worker_for(env, length=8).sample().batches["default"]
    assert batch[name].any()
    assert not batch[other].any()


def test_a_fragment_starts_with_the_closing_row_of_the_previous_one():
    worker = worker_for()
    first, second = worker.sample().batches["default"], worker.sample().batches["default"]
    np.testing.assert_array_equal(first["obs"][-1], second["obs"][0])
    np.testing.assert_allclose(first["values"][-1], second["values"][0], rtol=rounding_error(4 + 8))


def test_episode_returns_and_lengths_cover_whole_episodes_across_fragments():
    worker = worker_for(length=7)
    episodes = [episode for _ in range(60) for episode in worker.sample().episodes]
    assert len(episodes) > 20
    assert all(episode.episode_return == episode.length >= 8 for episode in episodes)


def test_rewards_are_clipped_in_batches_but_not_in_episode_returns():
    env = EnvConfig(id="Pendulum-v1", max_episode_steps=20)
    rollout = worker_for(env, clip=1.0).sample()
    assert rollout.batches["default"]["rewards"].min() == -1.0
    assert min(episode.episode_return for episode in rollout.episodes) < -20 * 1.0


def test_rewards_are_scaled_by_the_standard_deviation_of_discounted_returns():
    env = EnvConfig(id="Pendulum-v1")
    plain, scaled = worker_for(env), worker_for(env, scale=True)
    raw, rollout = plain.sample().batches["default"]["rewards"], scaled.sample()
    delta = rollout.filter_deltas["default"]["returns"]
    returns = np.zeros((50, 3))
    running = np.zeros(3)
    for t in range(50):
        running = 0.9 * running + raw[t]
        returns[t] = running
    np.testing.assert_allclose(delta.variance, returns.var(), rtol=rounding_error(50))
    np.testing.assert_allclose(rollout.batches["default"]["rewards"], raw / returns.std(), rtol=rounding_error(50))


def test_reset_rows_add_no_samples_to_the_return_statistics():
    env = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 2})
    delta = worker_for(env, length=12, scale=True).sample().filter_deltas["default"]["returns"]
    assert delta.count == 3 * 8
    assert delta.variance == pytest.approx(np.var([1.0, 1.9]))


def test_the_running_return_is_reset_after_an_episode_that_ended_with_the_fragment():
    transform = RewardTransform(2, RewardSettings(0.5, normalize=True))
    rewards, valid = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([[True, True], [True, True]])
    ends = np.array([[False, False], [True, False]])  # the episode in the first slot ends
    transform.measured(rewards, ends, valid)
    assert transform.state()["returns"].tolist() == [0.0, 2.5]
    valid[0, 0] = False  # the row of the final observation
    _, statistics = transform.measured(rewards, np.zeros_like(ends), valid)
    # The running return is 2 after the first slot's only step, and 1 + 2.5 / 2 and 2 + 2.25 / 2 after the other slot's.
    assert statistics["returns"].count == 3
    assert statistics["returns"].mean == pytest.approx((2.0 + 2.25 + 3.125) / 3)


def test_a_fragment_without_env_steps_adds_no_samples_to_the_return_statistics():
    env = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 1})
    worker = worker_for(env, num_envs=1, length=1, scale=True)
    counts = [worker.sample().filter_deltas["default"]["returns"].count for _ in range(4)]
    assert counts == [1, 0, 1, 0]


def test_filter_statistics_use_raw_observations_while_batches_contain_normalized_ones():
    worker = worker_for(normalize=True)
    unfiltered = worker.sample()
    delta = unfiltered.filter_deltas["default"]["observations/"]
    np.testing.assert_allclose(
        delta.mean, unfiltered.batches["default"]["obs"][:-1].mean((0, 1)), atol=rounding_error(50 * 3)
    )
    shifted = Moments(1000.0, np.full(4, 2.0), np.full(4, 1000.0))
    weights = Weights(5, np.zeros(worker_size(worker), np.float32), {"observations/": shifted})
    worker.follow(Orders({"default": weights}))
    filtered = worker.sample()
    assert filtered.batches["default"]["obs"].mean() == pytest.approx(-2.0, abs=0.5)
    assert abs(filtered.filter_deltas["default"]["observations/"].mean).max() < 0.5


def worker_size(worker):
    policy = plain_policy(
        ActorCriticPolicy, Box(-1, 1, (4,)), Discrete(2), ModelConfig(hiddens=(8,)), normalize_observations=True, seed=1
    )
    return policy.parameters.size


def test_fragments_are_reproducible_with_a_seed_and_differ_between_workers():
    first, again, other = worker_for(), worker_for(), worker_for(index=1)
    for _ in range(2):
        batch = first.sample().batches["default"]
        assert_equal_batches(batch, again.sample().batches["default"])
        assert (batch["obs"] != other.sample().batches["default"]["obs"]).any()


def test_parallel_envs_start_differently():
    observations = worker_for(num_envs=8).sample().batches["default"]["obs"][0]
    assert len(np.unique(observations, axis=0)) == 8


@pytest.mark.parametrize(
    "env",
    [
        CARTPOLE,
        EnvConfig(id="CartPole-v1", backend="loop"),
        EnvConfig(id="rlrun.toys:DictCartPole"),
        EnvConfig(id="Pendulum-v1", max_episode_steps=30),
    ],
    ids=["vector", "loop", "dict", "continuous"],
)
@pytest.mark.parametrize("fragments_before", [0, 1, 4])
def test_a_worker_restored_from_its_state_continues_bit_for_bit(env, fragments_before):
    settings = {"scale": True, "length": 13}
    straight = worker_for(env, **settings)
    for _ in range(fragments_before):
        straight.sample()
    state = straight.state()
    resumed = worker_for(env, **settings)
    assert resumed.load_state(state) == 0
    for _ in range(4):
        expected, found = straight.sample(), resumed.sample()
        assert_equal_batches(expected.batches["default"], found.batches["default"])
        assert expected.episodes == found.episodes
    assert_equal_states(straight.state(), resumed.state())


@pytest.mark.parametrize(("num_envs", "length"), [(1, 5), (3, 5), (1, 1)])
def test_a_worker_saved_just_after_all_env_slots_were_reset_continues_identically(num_envs, length):
    env = EnvConfig(id="rlrun.toys:ConstantReward", kwargs={"episode_len": 4})
    straight, resumed = (worker_for(env, num_envs=num_envs, length=length) for _ in range(2))
    for _ in range(5 // length):
        straight.sample()
    state = straight.state()
    assert [slot["length"] for slot in state["slots"]] == [0] * num_envs
    assert resumed.load_state(state) == 0
    assert_equal_states(state, resumed.state())
    assert_equal_batches(straight.sample().batches["default"], resumed.sample().batches["default"])


def assert_equal_states(first, second):
    assert first["fragment"] == second["fragment"]
    for left, right in zip(first["slots"], second["slots"], strict=True):
        assert {k: v for k, v in left.items() if k != "actions"} == {k: v for k, v in right.items() if k != "actions"}
        np.testing.assert_array_equal(left["actions"], right["actions"])


def test_the_worker_state_holds_the_actions_of_current_episodes_only():
    worker = worker_for(length=5)
    for _ in range(100):
        worker.sample()
    assert all(len(slot["actions"]) == slot["length"] for slot in worker.state()["slots"])


def test_an_env_slot_whose_state_cannot_be_restored_starts_its_next_episode():
    worker = worker_for(scale=True)
    worker.sample()
    state = worker.state()
    returns = state["rewards"]["default"]["returns"]
    assert returns.all()
    state["slots"][1]["hash"] = "0" * 32
    resumed = worker_for(scale=True)
    assert resumed.load_state(state) == 1
    assert resumed.state()["rewards"]["default"]["returns"].tolist() == [returns[0], 0, returns[2]]
    slot = resumed.state()["slots"][1]
    assert (slot["episode"], slot["length"]) == (state["slots"][1]["episode"] + 1, 0)
    rollout = resumed.sample()
    assert rollout.batches["default"]["valid"][0].all()
    np.testing.assert_array_less(np.abs(rollout.batches["default"]["obs"][0, 1]), 0.0501)


def test_numbers_in_the_last_info_of_an_episode_become_metrics():
    worker = worker_for(EnvConfig(id="tests_info_env:make", max_episode_steps=3), length=10)
    episodes = worker.sample().episodes
    assert {tuple(sorted(episode.info.items())) for episode in episodes} == {(("is_success", 1.0), ("score", 3.0))}


@pytest.fixture(autouse=True)
def _info_env_on_path(tmp_path, monkeypatch):
    (tmp_path / "tests_info_env.py").write_text(
        "import gymnasium\n"
        "class Scored(gymnasium.Wrapper):\n"
        "    def reset(self, **more):\n"
        "        self.score = 0\n"
        "        return self.env.reset(**more)\n"
        "    def step(self, action):\n"
        "        self.score += 1\n"
        "        *result, info = self.env.step(action)\n"
        "        none = {'note': 'x', 'bad': float('nan'), 'huge': 10**400}\n"
        "        return *result, {'score': self.score, 'is_success': True, **none}\n"
        "def make():\n"
        "    return Scored(gymnasium.make('Pendulum-v1'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_a_worker_with_a_dense_policy_imports_neither_torch_nor_ray(tmp_path):
    import pickle

    config = worker_for().config
    (tmp_path / "config.pkl").write_bytes(pickle.dumps(config))
    code = (
        "import pickle, sys, numpy as np\n"
        "from rlrun.engine.rollout.rollout_worker import RolloutWorker\n"
        "from rlrun.engine.policy.weights import Weights\n"
        "from rlrun.engine.rollout.worker import Orders\n"
        f"worker = RolloutWorker(pickle.load(open({str(tmp_path / 'config.pkl')!r}, 'rb')))\n"
        "worker.follow(Orders({'default': Weights(0, np.zeros(10_000, np.float32))}))\n"
        "worker.sample()\n"
        "assert not {'torch', 'ray'} & set(sys.modules), sorted({'torch', 'ray'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


TWO_LANES = EnvConfig(id="rlrun.toys:TwoLanes", kwargs={"episode_len": 4}, columns=("cost",))


def test_info_columns_are_recorded_only_in_rows_with_an_env_step():
    batch = worker_for(TWO_LANES, num_envs=2, length=11).sample().batches["default"]
    assert batch["cost"].dtype == np.float32
    assert batch["cost"].shape == (11, 2)
    fast = batch["obs"][1:, :, -2] == 1.0
    busy = batch["obs"][:-1, :, :5].argmax(-1) % 2 == 1
    expected = np.where(fast & batch["valid"], np.where(busy, 1.0, 0.2), 0.0)
    np.testing.assert_allclose(batch["cost"], expected, rtol=rounding_error(1))
    assert expected.any()
    assert not batch["valid"].all()


def test_column_sums_of_episodes_continue_across_fragments_and_a_resume():
    worker = worker_for(TWO_LANES, num_envs=2, length=3)
    fragments = [worker.sample() for _ in range(4)]
    resumed = worker_for(TWO_LANES, num_envs=2, length=3)
    resumed.load_state(worker.state())
    fragments += [resumed.sample() for _ in range(6)]
    cost = np.concatenate([fragment.batches["default"]["cost"] for fragment in fragments])
    told = [episode.columns["cost"] for fragment in fragments for episode in fragment.episodes]
    assert len(told) == 12  # each episode takes four rows of steps and one for its final observation
    sums = [cost[first : first + 4, slot].sum() for first in range(0, 30, 5) for slot in range(2)]
    np.testing.assert_allclose(told, sums, rtol=rounding_error(4))
    assert sum(sums) > 0


def noise_with(every):
    model = ModelConfig(hiddens=(3,), use_sde=True, sde_sample_freq=every)
    spaces = Box(-1, 1, (4,)), Box(-1, 1, (ACTIONS,))
    return plain_policy(ActorCriticPolicy, *spaces, model, seed=0).behavior().noise_source


def drawn_matrices(every, length, fragments):
    """Noise matrices and the noise of actions, [number of fragments * T, B, ...]."""
    draw = FragmentNoise(noise_with(every), 5, 1, length, SLOTS)
    noise = np.concatenate([draw(fragment) for fragment in fragments])
    return np.split(noise, [3 * ACTIONS], axis=-1)


@pytest.mark.parametrize("length", [1, 4, 10, 40])
@pytest.mark.parametrize("every", [1, 3, 4, 16, 64, 100])
def test_a_noise_matrix_is_kept_for_the_set_number_of_steps_across_fragments(every, length):
    steps = 3 * max(every, 40)
    matrices, own = drawn_matrices(every, length, range(-(-steps // length)))
    for t in range(1, len(matrices)):
        same = (matrices[t] == matrices[t - 1]).all()
        assert same == bool(t % every), t
    assert len(np.unique(matrices[::every, 0, 0])) == len(matrices[::every])
    assert len(np.unique(own[:, 0, 0])) == len(own)


@pytest.mark.parametrize(("every", "length"), [(64, 10), (64, 1), (3, 4), (7, 40)])
def test_a_worker_that_starts_at_a_later_fragment_draws_the_noise_matrices_of_that_fragment(every, length):
    expected = np.concatenate(drawn_matrices(every, length, range(40)), -1)
    for first in (1, 7, 23):
        found = np.concatenate(drawn_matrices(every, length, range(first, 40)), -1)
        np.testing.assert_array_equal(found, expected[first * length :])


def test_without_a_resampling_frequency_each_fragment_has_one_new_noise_matrix():
    matrices, _ = drawn_matrices(None, 40, range(3))
    assert [len(np.unique(matrices[first : first + 40, 0, 0])) for first in (0, 40, 80)] == [1, 1, 1]
    assert len(np.unique(matrices[:, 0, 0])) == 3
