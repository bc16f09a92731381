"""Hindsight: goals come from the same episode, rewards are recomputed, and every way of drawing gives the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlrun
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_buffer import ReplayBuffer
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay

GAMMA, SLOTS = 0.9, 2
NEVER = np.array([-1, -1])


class Distances:
    """Goals (episode, step): the reward of a step encodes what it achieved, and its goal."""

    def rewards(self, achieved, desired):
        return reward(achieved, desired)

    def terminateds(self, achieved, desired):
        return None


class Arrivals(Distances):
    """Like `Distances`, with episodes that end at the goal."""

    def terminateds(self, achieved, desired):
        return (achieved == desired).all(-1)


def reward(achieved, desired):
    return (achieved[..., 1] + 0.01 * desired[..., 1] + 0.1 * achieved[..., 0]).astype(np.float32)


def fragments(rng, number, length, *, ends="truncateds", goal=NEVER):
    """Returns fragments [T, B] of episodes of random lengths; a goal is the episode's number and the step in it."""
    place = np.zeros((SLOTS, 2), int)
    place[:, 0] = np.arange(SLOTS) * 100 + 1
    left, final = rng.integers(1, 6, SLOTS), np.zeros(SLOTS, bool)
    for _ in range(number):
        achieved = np.zeros((length + 1, SLOTS, 2))
        flags = {name: np.zeros((length, SLOTS), bool) for name in ("terminateds", "truncateds", "valid")}
        for t in range(length):
            achieved[t] = place
            for b in range(SLOTS):
                if final[b]:
                    place[b], left[b], final[b] = (place[b, 0] + 1, 0), rng.integers(1, 6), False
                    continue
                flags["valid"][t, b] = True
                place[b, 1], left[b] = place[b, 1] + 1, left[b] - 1
                final[b] = flags[ends][t, b] = left[b] == 0
        achieved[length] = place
        desired = np.broadcast_to(goal, achieved.shape).astype(float)
        rewards = np.where(flags["valid"], reward(achieved[1:], desired[1:]), 0).astype(np.float32)
        yield SampleBatch(
            obs={"achieved_goal": achieved, "desired_goal": desired, "observation": achieved.copy()},
            actions=np.zeros((length, SLOTS), np.int64),
            rewards=rewards,
            **flags,
        )


def replay_of(*, n_step=1, goals=Distances, capacity=60, sampling="uniform", **hindsight):
    config = ReplayConfig.parse({"capacity": capacity, "sampling": sampling, "hindsight": hindsight})
    return ReplayBuffer(config, num_workers=1, n_step=n_step, gamma=GAMMA, seed=0, make_goals=goals)


def filled(replay, seed=0, number=12, length=4, **how):
    for fragment in fragments(np.random.default_rng(seed), number, length, **how):
        replay.add(0, fragment)
    return replay


def columns(batch):
    obs, following = batch["obs"], batch["next_obs"]
    assert (obs["desired_goal"] == following["desired_goal"]).all()
    return obs["observation"][:, 0], following["observation"][:, 0], obs["desired_goal"][:, 0]


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@given(seed=st.integers(0, 2**16), number=st.integers(2, 30), n_step=st.sampled_from([1, 3]))
@settings(max_examples=15, deadline=None)
def test_new_goals_come_from_the_same_episode_and_rewards_are_recomputed_for_them(strategy, seed, number, n_step):
    replay = filled(replay_of(n_step=n_step, strategy=strategy, share=1.0), seed, number)
    batch = replay.sample(64, 0)
    present, following, goals = columns(batch)
    assert (goals[:, 0] == present[:, 0]).all()
    if strategy == "episode":
        assert (goals[:, 1] >= 0).all()
    else:
        assert (goals[:, 1] > present[:, 1]).all()
    assert (following[:, 0] == present[:, 0]).all()
    steps = (following - present)[:, 1].astype(int)
    for row, (first, number_of_steps, goal) in enumerate(zip(present, steps, goals, strict=True)):
        achieved = first + np.outer(np.arange(1, number_of_steps + 1), [0, 1])
        expected = GAMMA ** np.arange(number_of_steps) @ reward(achieved, np.broadcast_to(goal, achieved.shape))
        assert batch["rewards"][row, 0] == pytest.approx(expected, rel=1e-5)
        assert batch["discounts"][row, 0] == pytest.approx(GAMMA**number_of_steps)


def test_each_strategy_covers_all_goals_that_the_paper_allows():
    # Each slot holds one episode of five steps, in which 3, 4 and 5 are achieved from step 2 on.
    found = {}
    for strategy in ("future", "final", "episode"):
        replay = replay_of(strategy=strategy, share=1.0, capacity=100)
        one = fragments(np.random.default_rng(3), 1, 40)
        replay.add(0, next(iter(one)))
        present, _, goals = columns(replay.sample(4000, 0))
        lasts = {}
        for episode, step in goals:
            lasts[episode] = max(lasts.get(episode, 0), step)
        found[strategy] = {(step, goal, lasts[e]) for (e, step), goal in zip(present, goals[:, 1], strict=True)}
    assert all(goal == last for _, goal, last in found["final"])
    for strategy, first in (("future", 3), ("episode", 1)):
        assert {goal for step, goal, last in found[strategy] if (step, last) == (2, 5)} == set(range(first, 6))


def test_the_given_share_of_sampled_transitions_is_relabeled_and_the_rest_stay_unchanged():
    replay = filled(replay_of(share=0.75), number=40)
    batch = replay.sample(2000, 0)
    _, following, goals = columns(batch)
    own = (goals == NEVER).all(-1)
    assert 0.71 < 1 - own.mean() < 0.79
    np.testing.assert_allclose(batch["rewards"][own, 0], reward(following[own], goals[own]))


@pytest.mark.parametrize("sampling", ["uniform", "prioritized"])
def test_minibatches_drawn_together_equal_those_drawn_one_by_one(sampling):
    together, alone = (filled(replay_of(n_step=2, sampling=sampling)) for _ in range(2))
    many = together.sample(8, 0, 3)
    for i in range(3):
        one = alone.sample(8, 0)
        np.testing.assert_array_equal(many["obs"]["desired_goal"][8 * i : 8 * i + 8], one["obs"]["desired_goal"])
        np.testing.assert_array_equal(many["rewards"][8 * i : 8 * i + 8], one["rewards"])


def test_priorities_belong_to_stored_transitions_regardless_of_the_goal_they_are_given():
    replay = filled(replay_of(sampling="prioritized", share=1.0))
    batch = replay.sample(200, 0)
    first = batch["indices"][0]
    replay.update_priorities(batch["indices"], np.where(batch["indices"] == first, 1e6, 1e-6))
    assert (replay.sample(50, 0)["indices"] == first).mean() > 0.9


def test_a_relabeled_return_ends_where_the_new_goal_is_achieved():
    replay = filled(replay_of(n_step=3, goals=Arrivals, share=1.0), number=30)
    batch = replay.sample(200, 0)
    present, following, goals = columns(batch)
    away, steps = (goals - present)[:, 1].astype(int), (following - present)[:, 1].astype(int)
    arrives = away <= steps
    assert arrives.any()
    assert not arrives.all()
    np.testing.assert_array_equal(batch["discounts"][:, 0] == 0, arrives)
    for row in np.flatnonzero(arrives):
        achieved = present[row] + np.outer(np.arange(1, away[row] + 1), [0, 1])
        expected = GAMMA ** np.arange(away[row]) @ reward(achieved, np.broadcast_to(goals[row], achieved.shape))
        assert batch["rewards"][row, 0] == pytest.approx(expected, rel=1e-5)


def test_relabeling_keeps_terminations_that_are_unrelated_to_the_original_goal():
    replay = filled(replay_of(goals=Arrivals, strategy="episode", share=1.0), number=30, ends="terminateds")
    batch = replay.sample(400, 0)
    _, following, goals = columns(batch)
    lasts = {episode: following[following[:, 0] == episode, 1].max() for episode in following[:, 0]}
    arrives = (following == goals).all(-1)
    ended = batch["discounts"][:, 0] == 0
    running = following[:, 0] == np.array([max(e for e in lasts if e // 100 == f // 100) for f in following[:, 0]])
    is_last = following[:, 1] == np.array([lasts[episode] for episode in following[:, 0]])
    np.testing.assert_array_equal(ended[~running], (arrives | is_last)[~running])


def test_a_relabeled_return_bootstraps_where_only_the_original_goal_ended_the_episode():
    """Steps achieve 1, 2 and 3; the original goal was 3, so the episode ended there, and another one follows."""
    achieved = np.zeros((9, SLOTS, 2))
    achieved[:, :, 0] = np.repeat([1, 2, 3], [4, 4, 1])[:, None]  # episodes: three steps and a final observation each
    achieved[:, :, 1] = np.append(np.tile(np.arange(4), 2), 0)[:, None]
    desired = achieved.copy()
    desired[..., 1] = 3
    valid = (achieved[:-1, :, 1] < 3).astype(bool)
    flags = {"valid": valid, "terminateds": achieved[:-1, :, 1] == 2, "truncateds": np.zeros_like(valid)}
    rewards = np.where(valid, reward(achieved[1:], desired[1:]), 0).astype(np.float32)
    obs = {"achieved_goal": achieved, "desired_goal": desired, "observation": achieved.copy()}
    replay = replay_of(n_step=3, goals=Arrivals, strategy="episode", share=1.0)
    replay.add(0, SampleBatch(obs=obs, actions=np.zeros((8, SLOTS), np.int64), rewards=rewards, **flags))
    batch = replay.sample(200, 0)
    present, _, goals = columns(batch)
    seen = set()
    for row, ((episode, step), (_, goal)) in enumerate(zip(present, goals, strict=True)):
        last = goal if goal > step else 3  # the step that achieves the goal, or the episode's last one
        ahead = np.array([[episode, t] for t in np.arange(step + 1, last + 1)])
        own = np.broadcast_to([episode, goal], ahead.shape)
        assert batch["rewards"][row, 0] == pytest.approx(GAMMA ** np.arange(len(ahead)) @ reward(ahead, own), rel=1e-5)
        assert batch["discounts"][row, 0] == pytest.approx(0 if goal > step else GAMMA ** len(ahead))
        seen.add((step, goal))
    assert seen == {(step, goal) for step in range(3) for goal in (1, 2, 3)}


def test_restored_relabeling_continues_identically():
    replay = filled(replay_of(n_step=2, strategy="episode"), number=25)
    replay.sample(8, 0)
    restored = replay_of(n_step=2, strategy="episode")
    restored.load_state(replay.state())
    more = list(fragments(np.random.default_rng(9), 6, 4))
    for each in (replay, restored):
        for fragment in more:
            each.add(0, fragment)
    one, two = replay.sample(64, 0), restored.sample(64, 0)
    np.testing.assert_array_equal(one["obs"]["desired_goal"], two["obs"]["desired_goal"])
    np.testing.assert_array_equal(one["rewards"], two["rewards"])


def test_rewards_that_do_not_depend_on_goals_are_refused_at_the_first_fragment(wording):
    fragment = next(iter(fragments(np.random.default_rng(0), 1, 4)))
    with wording.raised(UsageError, "compute_reward", "clip_rewards"):
        replay_of().add(0, SampleBatch(fragment, rewards=fragment["rewards"] * 0.5))
    with wording.raised(UsageError, "desired_goal", "achieved_goal"):
        replay_of().add(0, SampleBatch(fragment, obs=fragment["obs"]["observation"]))


def test_hindsight_is_refused_without_goals_and_for_sequences(wording):
    with wording.raised(UsageError):
        ReplayBuffer(ReplayConfig.parse({"hindsight": {}}), num_workers=1, n_step=1, gamma=GAMMA, seed=0)
    config = SequenceReplayConfig.parse({"hindsight": {}})
    with pytest.raises(UsageError, match="sequences of a recurrent"):
        SequenceReplay(config, num_workers=1, n_step=1, gamma=GAMMA, seed=0)


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [(rlrun.DQN, {"id": "rlrun.toys:BitFlip", "kwargs": {"num_bits": 4}}), (rlrun.TD3, "Reach")],
)
def test_a_resumed_run_with_hindsight_continues_bit_for_bit(algorithm, env, tmp_path):
    env = "rlrun.toys:Reach" if env == "Reach" else env
    small = {
        "replay": {"hindsight": {}, "capacity": 500},
        "n_step": 2,
        "model": {"hiddens": [8]},
        "minibatch_size": 8,
        "learning_starts": 30,
        "min_env_steps_per_iteration": 60,
        "compile": False,
    }
    with rlrun.Training(env, algorithm(**small), seed=1) as training:
        training.step()
        training.save(tmp_path / "saved")
        training.step()
        expected = training.running.trainee.learner.flat()
    with rlrun.Training.restore(tmp_path / "saved") as training:
        training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), expected)


@pytest.mark.parametrize("hindsight", [{}, None])
def test_flipping_eight_bits_is_learned_only_with_hindsight(hindsight):
    algorithm = rlrun.DQN(
        replay={"hindsight": hindsight, "capacity": 6000},
        num_envs_per_worker=8,
        lr=1e-3,
        gamma=0.98,
        tau=0.05,
        target_update_interval=10,
        epsilon=((0, 0.3), (4500, 0.0)),
        learning_starts=200,
        min_env_steps_per_iteration=1000,
    )
    with rlrun.Training({"id": "rlrun.toys:BitFlip", "kwargs": {"num_bits": 8}}, algorithm, seed=0) as training:
        success = [training.step()["info/is_success"] for _ in range(6)][-1]
    assert success > 0.7 if hindsight is not None else success < 0.3
