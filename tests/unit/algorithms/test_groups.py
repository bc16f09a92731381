"""GRPO and RLOO: episodes that share seeds, groups of whole episodes, their advantages, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rlrun
from rlrun.algorithms.groups.episode_groups import EpisodeGroups, discounted_sum
from rlrun.engine.checkpoint.state_codec import decode, encode
from rlrun.engine.data.sample_batch import EPISODE, SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.training import Training
from tests.rounding import rounding_error

SMALL: dict[str, Any] = {
    "num_envs_per_worker": 4,
    "group_size": 2,
    "train_batch_size": 64,
    "minibatch_size": 32,
    "rollout_fragment_length": 8,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [8]},
}


class Starts(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Shows where its episode began, and the step; episodes end with action 1, or after 6 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    follows_seed = True

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        generator = self.np_random if self.follows_seed else np.random.default_rng()
        self.start = float(generator.random())
        self.steps = 0
        return self._shown(), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        return self._shown(), self.start, action == 1 or self.steps == 6, False, {}

    def _shown(self) -> NDArray[np.float32]:
        return np.array([self.start, self.steps], np.float32)


class Deaf(Starts):
    """The same env, whose resets ignore their seed."""

    follows_seed = False


HERE = f"{__name__}:Starts"


@pytest.mark.parametrize("env", [HERE, "CartPole-v1"], ids=["loop", "cartpole"])
def test_consecutive_episodes_share_a_seed_across_slots(env: str) -> None:
    seeds = EpisodeSeeds(3, 0, episodes_per_seed=2)
    made = make_vector_env(EnvConfig.parse(env), 4, seeds)
    made.reset()
    given, order = dict(enumerate(made.places())), [0, 1, 2, 3]
    for _ in range(60):
        made.step(np.zeros(4, np.int64))
        for slot, place in enumerate(made.places()):
            if place.episode != given[slot].episode:
                order.append(place.episode)
            given[slot] = place
            assert place.seed == seeds.seed(0, place.episode) == EpisodeSeeds(3, 0).seed(0, place.episode // 2)
    made.close()
    assert len(order) > 8
    assert order == list(range(len(order)))


def group_oracle(returns: list[float], *, leave_one_out: bool) -> list[float]:
    """The advantages of a group, by the papers' formulas."""
    number, found = len(returns), []
    for i, own in enumerate(returns):
        if leave_one_out:
            found.append(own - sum(other for j, other in enumerate(returns) if j != i) / (number - 1))
        else:
            mean = sum(returns) / number
            found.append((own - mean) / ((sum((each - mean) ** 2 for each in returns) / number) ** 0.5 + 1e-6))
    return found


def fragments_of(lengths: list[list[int]], size: int, cut: int) -> tuple[list[SampleBatch], list[list[float]]]:
    """Fragments of slots with episodes of given lengths, numbered as workers number them; and all episodes' rewards."""
    total = min(sum(length + 1 for length in own) for own in lengths) // size * size
    rng, slots = np.random.default_rng(0), len(lengths)
    batch = SampleBatch(
        obs=np.zeros((total + 1, slots, 1), np.float32),
        actions=rng.integers(0, 9, (total, slots)),
        rewards=rng.normal(size=(total, slots)).astype(np.float32),
        valid=np.ones((total, slots), np.bool_),
        terminateds=np.zeros((total, slots), np.bool_),
        truncateds=np.zeros((total, slots), np.bool_),
        episode=np.zeros((total, slots), np.int64),
    )
    left = [list(own) for own in lengths]
    present, since, following = list(range(slots)), [0] * slots, slots
    rewards: list[list[float]] = [[] for _ in range(slots)]
    for t in range(total):
        for slot in range(slots):
            batch["episode"][t, slot] = present[slot]
            if since[slot] == left[slot][0]:  # the final observation, and a reset
                batch["valid"][t, slot] = False
                left[slot].pop(0)
                present[slot], since[slot], following = following, 0, following + 1
                rewards.append([])
                continue
            since[slot] += 1
            rewards[present[slot]].append(float(batch["rewards"][t, slot]))
            ends = "truncateds" if present[slot] % 3 == cut else "terminateds"
            batch[ends][t, slot] = since[slot] == left[slot][0]
    cuts = [
        SampleBatch({name: leaf[at : at + size + (name == "obs")] for name, leaf in batch.items()})
        for at in range(0, total, size)
    ]
    return cuts, rewards


@pytest.mark.filterwarnings("ignore:an episode was truncated")
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 7), min_size=6, max_size=6), min_size=4, max_size=4),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
def test_all_steps_of_an_episode_have_its_advantage_wherever_fragments_cut_the_episode(
    lengths: list[list[int]], size: int, leave_one_out: bool, resumed: bool
) -> None:
    fragments, rewards = fragments_of(lengths, size, cut=1)
    operator, batches = EpisodeGroups(2, 0.9, leave_one_out=leave_one_out), []
    for fragment in fragments:
        if resumed:
            arrays: list[Any] = []
            encoded = encode(operator.state(), arrays)
            operator = EpisodeGroups(2, 0.9, leave_one_out=leave_one_out)
            operator.load_state(decode(encoded, arrays))
        batches += operator((None, fragment))
    found = [(batch["rewards"][0].tolist(), batch["advantages"][0].tolist()) for batch in batches]
    last = fragments[-1]["episode"][-1] if fragments else np.zeros(1)
    whole = [number for number in range(len(rewards)) if number not in last] if fragments else []
    emitted = [steps for steps, _ in found]
    for first in range(0, len(rewards), 2):
        pair = rewards[first : first + 2]
        if first in whole and first + 1 in whole and all(pair):
            assert [*pair[0], *pair[1]] in emitted
    for steps, advantages in found:
        first = next(n for n in range(0, len(rewards), 2) if [*rewards[n], *rewards[n + 1]] == steps)
        pair = rewards[first : first + 2]
        returns = [sum(0.9**t * reward for t, reward in enumerate(own)) for own in pair]
        expected = [
            advantage
            for advantage, own in zip(group_oracle(returns, leave_one_out=leave_one_out), pair, strict=True)
            for _ in own
        ]
        np.testing.assert_allclose(advantages, expected, atol=rounding_error(30, 10))


def test_groups_whose_returns_are_all_equal_are_counted_and_have_zero_advantages() -> None:
    fragments, _ = fragments_of([[2] * 4] * 4, 3, cut=5)
    for fragment in fragments:
        fragment["rewards"][:] = 1.0
        fragment["rewards"][:, :2] += fragment["episode"][:, :2] == 1
    operator = EpisodeGroups(2, 1.0, leave_one_out=False)
    batches = [batch for fragment in fragments[:1] for batch in operator((None, fragment))]
    assert [np.abs(batch["advantages"]).max() for batch in batches] == [pytest.approx(1.0, rel=1e-4), 0.0]
    assert operator.metrics() == {"equal_groups": 0.5}
    assert operator.metrics() == {}


def test_truncated_episodes_are_treated_as_terminated_and_a_single_warning_is_given() -> None:
    fragments, _ = fragments_of([[2] * 8] * 4, 3, cut=1)
    operator = EpisodeGroups(2, 1.0, leave_one_out=False)
    with pytest.warns(UserWarning, match="an episode was truncated, and counts as ended") as told:
        assert [len(operator((None, fragment))) for fragment in fragments] == [2] * len(fragments)
    assert len(told) == 1


def test_groups_do_not_wait_for_episodes_lost_in_an_inexact_resume() -> None:
    fragments, _ = fragments_of([[3] * 8] * 4, 4, cut=5)
    operator = EpisodeGroups(2, 1.0, leave_one_out=False)
    for number, fragment in enumerate(fragments):
        if number == 1:  # episode 4 is lost: later episodes have other numbers, and slot 0 lacks its first steps
            fragment["episode"][fragment["episode"] > 4] += 2
            fragment["valid"][:3, 0] = False
        elif number:
            fragment["episode"] += 2
        operator((None, fragment))
    assert sum(len(worker["ended"]) for worker in operator.state()["workers"]) <= 4


@pytest.mark.parametrize("algorithm", ["GRPO", "RLOO"])
@pytest.mark.parametrize(
    ("env", "model"),
    [
        (HERE, {"hiddens": [8]}),
        ("CartPole-v1", {"hiddens": [8], "core": "gru", "core_width": 4}),
        ("rlrun.toys:MaskedGrid", {"hiddens": [8], "core": "lstm", "core_width": 4}),
    ],
    ids=["dense", "gru", "masks and lstm"],
)
@pytest.mark.filterwarnings("ignore:an episode was truncated")
def test_a_resumed_run_matches_an_uninterrupted_run_bit_for_bit(
    algorithm: str, env: str, model: dict[str, Any], tmp_path: Path
) -> None:
    made = getattr(rlrun, algorithm)(**{**SMALL, "model": model, "kl_penalty": {}})
    with Training(env, made, seed=1) as training:
        for _ in range(3):
            training.step()
        training.save(tmp_path / "checkpoint")
        first = [training.step() for _ in range(3)]
        names = [slot.name for slot in training.running.trainee.policy.parameters.slots]
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint", trust=True) as training:
        second = [training.step() for _ in range(3)]
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), flat)
    kept = ("episode_return_mean", "env_steps", "learner/kl", "equal_groups")
    assert [[row.get(name) for name in kept] for row in first] == [[row.get(name) for name in kept] for row in second]
    assert not [name for name in names if "value" in name]


def test_an_env_that_ignores_its_seed_is_refused(wording: Any) -> None:
    with (
        Training(f"{__name__}:Deaf", rlrun.GRPO(**SMALL), seed=1) as training,
        wording.raised(UsageError, "reset()", "ppo"),
    ):
        training.step()


@pytest.mark.parametrize(
    "changes",
    [
        {"asynchronous": True},
        {"normalize_rewards": True},
        {"recompute_advantages": True},
        {"gae_lambda": 0.9},
        {"curiosity": {}},
        {"group_size": 3},
        {"group_size": 1},
        {"model": {"shared_value": True}},
    ],
)
def test_settings_incompatible_with_groups_are_refused(changes: dict[str, Any], wording: Any) -> None:
    with wording.raised(SpecError, next(iter(changes))):
        rlrun.GRPO(**changes)


def test_grpo_is_refused_in_worlds(wording: Any) -> None:
    with (
        wording.raised(UsageError, "grpo"),
        Training({"world": "rlrun.toys:CartPoles"}, rlrun.GRPO()) as training,
    ):
        training.step()


def test_returns_are_discounted_from_the_first_step_of_the_episode() -> None:
    assert discounted_sum(np.array([1.0, 2.0, 4.0], np.float32), 0.5) == 3.0
    assert EPISODE == "episode"
