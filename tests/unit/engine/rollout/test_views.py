"""Views while acting equal views read from fragments, whoever records the fragments and however they are cut."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, named_leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, viewed
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.operators.world_fragments import JoinFragments
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from tests.policies import plain_policy
from tests.rounding import rounding_error

VIEWS = {"prev_actions": 2, "prev_rewards": 3, "obs": 4}
NONE = 3
"""The value for an action before an episode's start, if there are 3 actions: the network sees zeros."""
NEAR = rounding_error(8 + 8 + 6 * 6)  # inputs of the layers, and six products over the width of the core


class ShortEpisodes(gymnasium.Env[Any, Any]):
    """Episodes of 1 to 5 steps, terminated or truncated, with unique observations and rewards."""

    observation_space: gymnasium.Space[Any] = Box(-np.inf, np.inf, (2,), np.float32)
    action_space: gymnasium.Space[Any] = Discrete(NONE)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 6))
        return self.shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over, cut = self.left == 0, bool(self.np_random.random() < 0.5)
        return self.shown(), float(self.np_random.normal()), over and not cut, over and cut, {}

    def shown(self) -> Any:
        return self.np_random.normal(size=2).astype(np.float32)


class ShortChoices(ShortEpisodes):
    """Two choices starting at 5 and 6, a mask, and several actions at a time."""

    observation_space = Dict({"action_mask": Box(0, 1, (5,), np.int8), "cards": MultiDiscrete([4, 3], start=[5, 5])})
    action_space = MultiDiscrete([3, 2])

    def shown(self) -> Any:
        mask = np.ones(5, np.int8)
        mask[int(self.np_random.integers(3))] = 0
        return {"action_mask": mask, "cards": self.np_random.integers([5, 5], [9, 8])}


def policy_of(env: type[ShortEpisodes] = ShortEpisodes, *, normalize: bool = False, **model: Any) -> ActorCriticPolicy:
    settings = ModelConfig(hiddens=(8,), core_width=6, orthogonal_init=False).replace(**{"views": VIEWS, **model})
    return plain_policy(
        ActorCriticPolicy, env.observation_space, env.action_space, settings, normalize_observations=normalize, seed=5
    )


def worker_of(policy: ActorCriticPolicy, length: int, env: type[ShortEpisodes] = ShortEpisodes) -> RolloutWorker:
    config = WorkerConfig(
        env=EnvConfig(id=f"{env.__module__}:{env.__name__}"),
        num_envs=3,
        fragment_length=length,
        seed=7,
        behaviors={"default": policy.behavior()},
        rewards={"default": RewardSettings(gamma=0.99, scale=RewardScale(clip=0.5))},
        worker_index=0,
        num_workers=1,
    )
    worker = RolloutWorker(config)
    filters = {"observations/": Moments.of(np.random.default_rng(0).normal(1, 3, (1000, 2)), 1)}
    worker.follow(Orders({"default": Weights(0, policy.parameters.gather(policy.module).numpy(), filters)}))
    return worker


def fragments_of(policy: ActorCriticPolicy, length: int, number: int, **more: Any) -> list[SampleBatch]:
    worker = worker_of(policy, length, **more)
    return [worker.sample().batches["default"] for _ in range(number)]


def joined_fragments(parts: list[SampleBatch]) -> SampleBatch:
    join = JoinFragments(len(parts), normalized=False)
    (joined,) = [whole for part in parts for whole in join((0, part))]
    return joined


def by_hand(batches: list[SampleBatch]) -> dict[str, np.ndarray]:
    """Returns the views of all rows but the last, from a list for each episode along each slot's stream."""
    joined = {name: np.concatenate([own[name] for own in batches]) for name in ("actions", "valid")}
    obs = np.concatenate([own["obs"][:-1] for own in batches])
    rewards = np.concatenate([own["prev_rewards"][1:] for own in batches])  # the rewards that the env gave, unclipped
    length, slots = joined["valid"].shape
    seen = {
        VIEW_FRAMES: np.zeros((length, slots, 4, 2), np.float32),
        VIEW_PREV_ACTIONS: np.full((length, slots, 2), NONE),
        VIEW_PREV_REWARDS: np.zeros((length, slots, 3), np.float32),
    }
    for slot in range(slots):
        episode: list[tuple[Any, Any, Any]] = []
        for t in range(length):
            shown = [own[0] for own in episode] + [obs[t, slot]]
            for name, column in zip(seen, (shown, [e[1] for e in episode], [e[2] for e in episode]), strict=True):
                room = seen[name].shape[2]
                latest = column[-room:]
                seen[name][t, slot, room - len(latest) :] = latest if latest else seen[name][t, slot, :0]
            episode.append((obs[t, slot], joined["actions"][t, slot], rewards[t, slot]))
            if not joined["valid"][t, slot]:
                episode = []
    return seen


@pytest.mark.parametrize("length", [1, 3, 8])
def test_views_contain_the_history_of_the_episode_across_fragments_padded_with_zeros(length: int) -> None:
    batches = fragments_of(policy_of(), length, 48 // length)
    assert (np.concatenate([own["valid"] for own in batches]) == 0).sum() > 20
    expected = by_hand(batches)
    for name, column in expected.items():
        found = np.concatenate([viewed(own)["obs"][name][:-1] for own in batches])
        np.testing.assert_array_equal(found, column, err_msg=name)
    for before, after in itertools.pairwise(batches):
        for (name, closing), (_, first) in zip(
            named_leaves(viewed(before)["obs"]), named_leaves(viewed(after)["obs"]), strict=True
        ):
            np.testing.assert_array_equal(closing[-1], first[0], err_msg=name)


def test_views_of_joined_fragments_equal_the_joined_views_of_the_fragments() -> None:
    parts = fragments_of(policy_of(), 4, 3)
    joined = viewed(joined_fragments(parts))["obs"]
    for name, column in named_leaves(joined):
        apart = [dict(named_leaves(viewed(part)["obs"]))[name] for part in parts]
        np.testing.assert_array_equal(column, np.concatenate([*(own[:-1] for own in apart[:-1]), apart[-1]]))


def test_views_of_a_fragment_in_which_no_agent_acts_are_empty() -> None:
    """Tests slots of a policy whose agents are not born yet."""
    behavior = policy_of().behavior()
    batch = behavior.collector.allocate(3, 2)
    batch.update(obs=np.zeros((4, 2, 2), np.float32), actions=np.zeros((3, 2), np.int64))
    behavior.collector.close(batch, *np.zeros((2, 2), np.bool_))
    assert behavior.memory.views is not None
    behavior.memory.views.carry(batch)
    seen = viewed(batch)["obs"]
    assert not seen[VIEW_FRAMES].any()
    assert (seen[VIEW_PREV_ACTIONS] == NONE).all()


def test_views_of_several_steps_store_each_observation_only_once() -> None:
    (batch,) = fragments_of(policy_of(), 20, 1)
    assert batch["obs"].shape == (21, 3, 2)
    assert [len(leaf) for leaf in leaves(batch["history"])] == [4, 3, 3]


@pytest.mark.parametrize("core", [None, "lstm", "gru", "gtrxl"])
@pytest.mark.parametrize("env", [ShortEpisodes, ShortChoices])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_learner_sees_the_same_views_as_the_acting_policy(
    env: type[ShortEpisodes], core: str | None, normalize: bool
) -> None:
    policy = policy_of(env, normalize=normalize, core=core, gtrxl={"layers": 1, "heads": 3, "memory_len": 3})
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    for batch in fragments_of(policy, 7, 4, env=env):
        for whole in (False, True):
            rows = learning_rows(batch, seq_len=None if core is None or whole else 5, whole_fragments=whole)
            columns = rows.map(torch.from_numpy)
            with torch.no_grad():
                outputs = policy.outputs(views, columns)
            valid = columns["valid"].bool()
            found = outputs.distribution.log_prob(columns["actions"])[valid]
            torch.testing.assert_close(found, columns["logp"][valid], rtol=NEAR, atol=NEAR)
            torch.testing.assert_close(outputs.values[valid], columns["values"][valid], rtol=NEAR, atol=NEAR)
            if whole:  # the observation after a step also has a value, even a final one
                behind = torch.zeros_like(valid)
                behind[:, 1:] = valid[:, :-1]
                values = torch.from_numpy(batch["values"].T.copy())
                torch.testing.assert_close(outputs.values[behind], values[behind], rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("core", [None, "lstm"])
def test_a_worker_with_views_restored_from_its_state_continues_bit_for_bit(core: str | None) -> None:
    policy = policy_of(core=core)
    worker = worker_of(policy, 5)
    for _ in range(3):
        worker.sample()
    state = copy.deepcopy(worker.state())
    restored = worker_of(policy, 5)
    assert restored.load_state(state) == 0
    for _ in range(3):
        expected, found = worker.sample().batches["default"], restored.sample().batches["default"]
        for (name, left), (_, right) in zip(named_leaves(dict(expected)), named_leaves(dict(found)), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=name)


def test_images_of_several_steps_are_stacked_as_channels() -> None:
    space = Box(0, 255, (40, 40, 3), np.uint8)
    policy = plain_policy(
        ActorCriticPolicy,
        space,
        Discrete(2),
        ModelConfig().replace(views={"obs": 4}),
        seed=0,
    )
    assert policy.leaves[VIEW_FRAMES].channels_height_width == (12, 40, 40)


def test_views_are_refused_for_custom_modules_and_unsupported_spaces(wording) -> None:
    with wording.raised(SpecError):
        ModelConfig.parse({"views": {"obs": 2}, "module": "my.nets:Net"})
    with wording.raised(UsageError, "model.views.obs"):
        plain_policy(
            ActorCriticPolicy,
            MultiDiscrete([2, 3], start=[0, 1]),
            Discrete(2),
            ModelConfig().replace(views={"obs": 2}),
            seed=0,
        )
