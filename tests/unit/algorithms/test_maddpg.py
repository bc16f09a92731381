"""MADDPG: what critics compare, what the actor climbs, and how actions are drawn with a gradient."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlrun.algorithms.maddpg import MADDPG, MADDPGConfig
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError
from rlrun.flow.operators.team import GIVEN
from rlrun.policy.team_actor_critics import NEXT_NOISE, NOISE
from rlrun.training.training import Training
from rlrun.worlds.world import WorldView
from rlrun.worlds.world_config import WorldConfig

ROWS, MEMBERS, ACTIONS = 5, 2, 3
SPACES = Spaces(Box(-1, 1, (2,)), Discrete(ACTIONS))
MASKED = Spaces(Dict({"action_mask": MultiBinary(ACTIONS), "seen": SPACES.observation}), SPACES.action)
WORLD = WorldView(None, MEMBERS, "parallel")


def observations(seed: int, *, masked: bool = False) -> dict[str, Any]:
    draws = torch.Generator().manual_seed(seed)
    seen: Any = torch.randn(ROWS, 1, MEMBERS, 2, generator=draws)
    if masked:
        mask = torch.tensor([0, 1, 1], dtype=torch.int8).expand(ROWS, 1, MEMBERS, ACTIONS)
        seen = {"action_mask": mask, "seen": seen}
    given = torch.randn(ROWS, 1, MEMBERS, generator=draws)
    return {"agents": seen, "present": torch.ones(ROWS, 1, MEMBERS, dtype=torch.bool), GIVEN: given}


def made(*, masked: bool = False, **config: Any) -> tuple[MADDPG, Any, SampleBatch]:
    algorithm = MADDPG(MADDPGConfig(**config))
    policy = algorithm.policy_in_world(MASKED if masked else SPACES, WORLD, seed=0)
    draws = policy.draws(np.random.default_rng(0), ROWS, 1)
    batch = SampleBatch(
        obs=observations(1, masked=masked),
        next_obs=observations(2, masked=masked),
        actions=torch.randint(ACTIONS, (ROWS, 1, MEMBERS), generator=torch.Generator().manual_seed(3)),
        rewards=torch.full((ROWS, 1), 99.0),
        discounts=torch.full((ROWS, 1), 99.0),
        weights=torch.ones(ROWS, 1),
        valid=torch.ones(ROWS, 1, dtype=torch.bool),
        **{name: torch.from_numpy(drawn) for name, drawn in draws.items()},
    )
    flat = policy.parameters.gather(policy.module).requires_grad_()
    outputs = policy.outputs(policy.parameters.views(flat), batch, policy.parameters.views(flat.detach() * 0.9))
    return algorithm, outputs, batch


def test_drawn_actions_are_one_hot_with_the_gradient_of_the_softmax() -> None:
    _, outputs, batch = made()
    logits = torch.randn(ROWS, 1, MEMBERS, ACTIONS, requires_grad=True)
    weights = torch.randn(ROWS, 1, MEMBERS, ACTIONS)
    drawn = outputs.drawn(logits, batch[NOISE])
    assert set(drawn.detach().round(decimals=5).unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(drawn.argmax(-1), (logits + batch[NOISE].view(logits.shape)).argmax(-1))
    (found,) = torch.autograd.grad((drawn * weights).sum(), logits)
    soft = (logits + batch[NOISE].view(logits.shape)).softmax(-1)
    (expected,) = torch.autograd.grad((soft * weights).sum(), logits)
    torch.testing.assert_close(found, expected)


def test_each_critic_is_compared_with_its_members_own_reward_and_who_died_has_no_future() -> None:
    algorithm, outputs, batch = made(gamma=0.5)
    batch["next_obs"]["present"][2, 0, 1] = False
    actions, following = outputs.one_hot(batch["actions"]), outputs.target_actions(batch["next_obs"], batch[NEXT_NOISE])
    squares = torch.zeros(())
    for member in range(MEMBERS):
        lives = batch["next_obs"]["present"][:, :, member].float()
        values = outputs.target_value(member, batch["next_obs"], following)
        targets = batch["next_obs"][GIVEN][:, :, member] + 0.5 * lives * values
        squares = squares + (outputs.value(member, batch["obs"], actions) - targets).square().mean()
    assert algorithm.critics_loss(outputs, batch, {}).total.item() == pytest.approx(squares.item(), rel=1e-5)


def test_the_critic_of_an_absent_member_learns_nothing() -> None:
    algorithm, outputs, batch = made()
    batch["obs"]["present"][..., 1] = False
    loss = algorithm.critics_loss(outputs, batch, {})
    named = [outputs.views[f"critics.{member}.head.weight"] for member in range(MEMBERS)]
    first, second = torch.autograd.grad(loss.total, named)
    assert first.abs().sum() > 0
    assert second.abs().sum() == 0


def test_the_actor_climbs_each_members_own_action_beside_the_others_old_ones() -> None:
    algorithm, outputs, batch = made(logit_penalty=0.0)
    drawn = outputs.drawn(outputs.logits(batch["obs"]), batch[NOISE])
    taken = outputs.one_hot(batch["actions"])
    first = outputs.value(0, batch["obs"], torch.cat([drawn[:, :, :1], taken[:, :, 1:]], 2))
    second = outputs.value(1, batch["obs"], torch.cat([taken[:, :, :1], drawn[:, :, 1:]], 2))
    expected = -(first.mean() + second.mean())
    assert algorithm.actor_loss(outputs, batch, {}).total.item() == pytest.approx(expected.item(), rel=1e-5)


def test_forbidden_actions_are_never_drawn_and_their_logits_cost_nothing() -> None:
    algorithm, outputs, batch = made(masked=True)
    assert outputs.target_actions(batch["next_obs"], batch[NEXT_NOISE])[..., 0].sum() == 0
    assert abs(algorithm.actor_loss(outputs, batch, {}).total.item()) < 100


def test_worlds_that_do_not_fit_are_told_what_to_use_instead() -> None:
    algorithm = MADDPG(MADDPGConfig())
    with pytest.raises(UsageError, match="use ddpg or sac"):
        algorithm.policy(SPACES, seed=0)
    with pytest.raises(UsageError, match="take turns: use ppo"):
        algorithm.policy_in_world(SPACES, WorldView(None, 2, "per_agent"), seed=0)
    with pytest.raises(UsageError, match="use mappo"):
        algorithm.policy_in_world(Spaces(SPACES.observation, Box(-1, 1, (2,))), WORLD, seed=0)


def test_a_restored_team_goes_on_bit_for_bit() -> None:
    world = WorldConfig(
        world="rlrun.worlds.matrix_games:MatrixGame", kwargs={"game": "prisoners_dilemma"}, max_episode_steps=3
    )
    config = MADDPGConfig.parse(
        {"num_envs_per_worker": 2, "learning_starts": 10, "minibatch_size": 8, "min_env_steps_per_iteration": 21}
    )
    with Training(world, MADDPG(config), seed=3) as whole:
        whole.step()
        whole.step()
        content = whole.content({})
        whole.step()
        expected = whole.trainee.learner.flat()
    with Training(world, MADDPG(config), seed=3) as resumed:
        resumed.load(content)
        resumed.step()
        np.testing.assert_array_equal(resumed.trainee.learner.flat(), expected)
