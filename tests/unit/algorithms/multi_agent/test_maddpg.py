"""MADDPG: what critics compare, what each actor maximizes, and how actions get a gradient."""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch.fx.experimental.proxy_tensor import make_fx

from rlrun.algorithms.multi_agent.maddpg import MADDPG, MADDPGConfig
from rlrun.algorithms.multi_agent.member_actions import NEXT_NOISE, NOISE
from rlrun.algorithms.multi_agent.team import GIVEN
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.executors.execution import flattened_arguments, traceable
from rlrun.engine.learner.update import Parameters, Update, fresh_state
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.action_spaces.box import BoxScale
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.engine.worlds.world_view import WorldView
from tests.rounding import rounding_error

ROWS, MEMBERS, ACTIONS = 5, 2, 3
SPACES = Spaces(Box(-1, 1, (2,)), Discrete(ACTIONS))
BOX = Spaces(SPACES.observation, Box(np.float32([0, -2, 1]), np.float32([1, 2, 5])))
BOX_SCALE = BoxScale(BOX.action)
MASKED = Spaces(Dict({"action_mask": MultiBinary(ACTIONS), "seen": SPACES.observation}), SPACES.action)
WORLD = WorldView(None, MEMBERS, "parallel")
KINDS = pytest.mark.parametrize("spaces", [SPACES, BOX], ids=["discrete", "box"])


def observations(seed: int, *, masked: bool = False) -> dict[str, Any]:
    draws = torch.Generator().manual_seed(seed)
    seen: Any = torch.randn(ROWS, 1, MEMBERS, 2, generator=draws)
    if masked:
        mask = torch.tensor([0, 1, 1], dtype=torch.int8).expand(ROWS, 1, MEMBERS, ACTIONS)
        seen = {"action_mask": mask, "seen": seen}
    given = torch.randn(ROWS, 1, MEMBERS, generator=draws)
    return {"agents": seen, "present": torch.ones(ROWS, 1, MEMBERS, dtype=torch.bool), GIVEN: given}


def policy_for(spaces: Spaces, **config: Any) -> Policy:
    return MADDPG(MADDPGConfig(**config)).policy_in_world(spaces, WORLD, seed=0)


def algorithm_outputs_and_rows(spaces: Spaces = SPACES, **config: Any) -> tuple[MADDPG, Any, SampleBatch]:
    algorithm = MADDPG(MADDPGConfig(**config))
    policy = policy_for(spaces, **config)
    draws, actions = policy.draws(np.random.default_rng(0), ROWS, 1), torch.Generator().manual_seed(3)
    batch = SampleBatch(
        obs=observations(1, masked=spaces is MASKED),
        next_obs=observations(2, masked=spaces is MASKED),
        actions=torch.rand(ROWS, 1, MEMBERS, ACTIONS, generator=actions) * 2 - 1
        if spaces is BOX
        else torch.randint(ACTIONS, (ROWS, 1, MEMBERS), generator=actions),
        rewards=torch.full((ROWS, 1), 99.0),
        discounts=torch.full((ROWS, 1), 99.0),
        weights=torch.ones(ROWS, 1),
        valid=torch.ones(ROWS, 1, dtype=torch.bool),
        **{name: torch.from_numpy(drawn) for name, drawn in draws.items()},
    )
    flat = policy.parameters.gather(policy.module).requires_grad_()
    outputs = policy.outputs(policy.parameters.views(flat), batch, policy.parameters.views(flat.detach() * 0.9))
    return algorithm, outputs, batch


def taken_and_new(outputs: Any, batch: SampleBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """All members' recorded actions, and their new ones, [S, L, K, A]."""
    both = torch.stack([outputs.actor_outputs(member, batch["obs"]) for member in range(MEMBERS)], 2)
    if NOISE not in batch:
        return batch["actions"], both.tanh()
    one_hot = torch.nn.functional.one_hot(batch["actions"], ACTIONS).float()
    soft = (both + batch[NOISE]).softmax(-1)
    return one_hot, torch.nn.functional.one_hot(soft.argmax(-1), ACTIONS).float() + soft - soft.detach()


def test_discrete_actions_are_one_hot_and_have_the_gradient_of_the_softmax() -> None:
    _, outputs, batch = algorithm_outputs_and_rows()
    logits = torch.randn(ROWS, 1, MEMBERS, ACTIONS, requires_grad=True)
    weights = torch.randn(ROWS, 1, MEMBERS, ACTIONS)
    drawn = outputs.actions.made(logits, batch[NOISE])
    assert set(drawn.detach().round(decimals=5).unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(drawn.argmax(-1), (logits + batch[NOISE]).argmax(-1))
    (found,) = torch.autograd.grad((drawn * weights).sum(), logits)
    soft = (logits + batch[NOISE]).softmax(-1)
    (expected,) = torch.autograd.grad((soft * weights).sum(), logits)
    torch.testing.assert_close(found, expected)


@KINDS
def test_critic_targets_use_each_members_own_reward_and_do_not_bootstrap_after_its_death(spaces: Spaces) -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows(spaces, gamma=0.5)
    batch["next_obs"]["present"][2, 0, 1] = False
    actions, _ = taken_and_new(outputs, batch)
    following = outputs.target_actions(batch["next_obs"], batch.get(NEXT_NOISE))
    squares = torch.zeros(())
    for member in range(MEMBERS):
        lives = batch["next_obs"]["present"][:, :, member].float()
        values = outputs.target_value(member, batch["next_obs"], following)
        targets = batch["next_obs"][GIVEN][:, :, member] + 0.5 * lives * values
        squares = squares + (outputs.value(member, batch["obs"], actions) - targets).square().mean()
    assert algorithm.critics_loss(outputs, batch, {}).total.item() == pytest.approx(
        squares.item(), rel=rounding_error(ROWS * MEMBERS)
    )


def test_continuous_target_actions_come_from_the_target_actors() -> None:
    _, outputs, batch = algorithm_outputs_and_rows(BOX)
    found = outputs.target_actions(batch["next_obs"], None)
    for member in range(MEMBERS):
        weights = {name: view for name, view in outputs.target_views.items() if name.startswith(f"actors.{member}.")}
        x = batch["next_obs"]["agents"][:, 0, member]
        for layer in ("trunk.0", "trunk.2"):
            weight, bias = (weights[f"actors.{member}.{layer}.{part}"] for part in ("weight", "bias"))
            x = torch.relu(x @ weight.T + bias)
        weight, bias = (weights[f"actors.{member}.head.{part}"] for part in ("weight", "bias"))
        torch.testing.assert_close(found[:, 0, member], torch.tanh(x @ weight.T + bias))


def test_the_critic_of_an_absent_member_learns_nothing() -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows()
    batch["obs"]["present"][..., 1] = False
    loss = algorithm.critics_loss(outputs, batch, {})
    named = [outputs.views[f"critics.{member}.head.weight"] for member in range(MEMBERS)]
    first, second = torch.autograd.grad(loss.total, named)
    assert first.abs().sum() > 0
    assert second.abs().sum() == 0


@KINDS
def test_each_actor_maximizes_its_own_critic_given_the_other_members_recorded_actions(spaces: Spaces) -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows(spaces, output_penalty=0.5)
    taken, new = taken_and_new(outputs, batch)
    first = outputs.value(0, batch["obs"], torch.cat([new[:, :, :1], taken[:, :, 1:]], 2))
    second = outputs.value(1, batch["obs"], torch.cat([taken[:, :, :1], new[:, :, 1:]], 2))
    penalties = sum(outputs.actor_outputs(member, batch["obs"]).square().mean() for member in range(MEMBERS))
    expected = 0.5 * penalties - (first.mean() + second.mean())
    assert algorithm.actors_loss(outputs, batch, {}).total.item() == pytest.approx(
        expected.item(), rel=rounding_error(ROWS * MEMBERS)
    )


@KINDS
def test_a_members_objective_changes_only_the_members_own_actor(spaces: Spaces) -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows(spaces)
    batch["obs"]["present"][..., 1] = False
    loss = algorithm.actors_loss(outputs, batch, {})
    for name, view in outputs.views.items():
        if name.startswith("actors."):
            (gradient,) = torch.autograd.grad(loss.total, view, retain_graph=True)
            assert bool(gradient.abs().sum() > 0) == name.startswith("actors.0.")


def test_a_shared_actor_learns_from_all_team_members() -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows(BOX, share_actor=True)
    assert len(outputs.actors) == 1
    gradients = []
    for absent in ([], [0], [1]):
        batch["obs"]["present"][...] = True
        batch["obs"]["present"][..., absent] = False
        (gradient,) = torch.autograd.grad(
            algorithm.actors_loss(outputs, batch, {}).total, outputs.views["actors.0.head.weight"], retain_graph=True
        )
        gradients.append(gradient.abs().sum().item())
    assert min(gradients) > 0
    assert len(set(gradients)) == 3


def test_forbidden_actions_are_never_drawn_and_their_logits_do_not_add_to_the_loss() -> None:
    algorithm, outputs, batch = algorithm_outputs_and_rows(MASKED)
    assert outputs.target_actions(batch["next_obs"], batch[NEXT_NOISE])[..., 0].sum() == 0
    assert abs(algorithm.actors_loss(outputs, batch, {}).total.item()) < 100


def acting(policy: Any, deviation: float = 0.0) -> Any:
    """The acting side with the policy's initial weights."""
    behavior = pickle.loads(pickle.dumps(policy.behavior()))
    start, size = policy.acting_range
    flat = policy.parameters.gather(policy.module).numpy()[start : start + size]
    behavior.load(Weights(0, flat, {}, 10_000, {"exploration_noise": deviation}))
    return behavior


@pytest.mark.parametrize("share_actor", [False, True])
def test_each_slot_acts_with_the_actor_of_its_team_member(share_actor: bool) -> None:
    worlds, (_, outputs, _) = 3, algorithm_outputs_and_rows(BOX, share_actor=share_actor)
    seen = np.random.default_rng(0).standard_normal((worlds, MEMBERS, 2), np.float32)
    rows = {"agents": torch.from_numpy(seen)[:, None], "present": torch.ones(worlds, 1, MEMBERS, dtype=torch.bool)}
    own = torch.stack([outputs.actor_outputs(member, rows) for member in range(MEMBERS)], 2)[:, 0].tanh()
    low, high = BOX.action.low, BOX.action.high
    expected = low + (own.detach().numpy() + 1) / 2 * (high - low)
    found = acting(policy_for(BOX, share_actor=share_actor)).actions(seen.reshape(worlds * MEMBERS, 2), None)
    np.testing.assert_allclose(found, expected.reshape(worlds * MEMBERS, ACTIONS), atol=rounding_error(2 + 64 + 64))


def test_each_team_member_explores_with_its_own_noise() -> None:
    behavior, seen = acting(policy_for(BOX, share_actor=True), deviation=0.1), np.zeros((MEMBERS, 2), np.float32)
    noise = behavior.noise_source.noise(np.random.default_rng(0), 1, MEMBERS)
    record = behavior.collector.allocate(1, MEMBERS)
    behavior.act(seen, noise[0], record, 0, np.ones(MEMBERS, np.bool_))
    unmoved = BOX_SCALE.from_env(behavior.actions(seen, None))
    np.testing.assert_allclose(record["actions"][0] - unmoved, 0.1 * noise[0, :, :ACTIONS], atol=rounding_error(4))
    assert np.abs(record["actions"][0, 0] - record["actions"][0, 1]).min() > 1e-3


def test_a_team_refuses_to_act_on_a_single_observation(wording) -> None:
    with wording.raised(UsageError):
        acting(policy_for(BOX)).actions(np.zeros((1, 2), np.float32), None)


def test_unsuitable_envs_are_refused_with_a_suggestion(wording) -> None:
    algorithm = MADDPG(MADDPGConfig())
    with wording.raised(UsageError):
        algorithm.policy(SPACES, seed=0)
    with wording.raised(UsageError):
        algorithm.policy_in_world(SPACES, WorldView(None, 2, "per_agent"), seed=0)
    with pytest.raises(UsageError, match="use mappo"):
        algorithm.policy_in_world(Spaces(SPACES.observation, MultiDiscrete([2, 2])), WORLD, seed=0)


class Meeting(World):
    """Two agents each push a point along a line, and are paid for being close; `b` leaves in step 3 of 5."""

    possible_agents = ("a", "b")

    def spaces(self, agent: str) -> Spaces:
        return Spaces(Box(-9, 9, (2,)), Box(np.float32([-1]), np.float32([3])))

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.steps = 0
        self.places = dict(zip("ab", np.random.default_rng(seed).uniform(-1, 1, 2), strict=True))
        return self.shown("ab")

    def shown(self, agents: str) -> dict[str, Any]:
        return {agent: np.array([*self.places.values()], np.float32) for agent in agents}

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        self.steps += 1
        for agent, action in actions.items():
            self.places[agent] += 0.1 * float(action[0])
        rewards = dict.fromkeys(actions, -abs(self.places["a"] - self.places["b"]))
        living = "ab" if self.steps < 3 else "a"
        gone = {"b": True} if self.steps == 3 else {}
        return WorldStep(self.shown(living), rewards, gone, {}, {}, self.steps == 5)


@KINDS
def test_a_restored_run_of_a_team_continues_bit_for_bit(spaces: Spaces) -> None:
    world = EnvConfig(world=f"{__name__}:Meeting")
    if spaces is SPACES:
        world = EnvConfig(world="rlrun.toys:MatrixGame", kwargs={"game": "prisoners_dilemma"})
    config = MADDPGConfig.parse(
        {
            "num_envs_per_worker": 2,
            "learning_starts": 10,
            "minibatch_size": 8,
            "min_env_steps_per_iteration": 21,
            "exploration": "ornstein_uhlenbeck",
        }
    )
    with Training(world, MADDPG(config), seed=3) as whole:
        whole.step()
        whole.step()
        content = whole.content({})
        whole.step()
        expected = whole.running.trainee.learner.flat()
    with Training(world, MADDPG(config), seed=3) as resumed:
        resumed.load(content)
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)


@KINDS
def test_the_numpy_update_agrees_with_the_eager_update(spaces: Spaces) -> None:
    game = {"world": "rlrun.toys:TwoStepGame"} if spaces is SPACES else {"world": f"{__name__}:Meeting"}
    config = MADDPGConfig.parse({"learning_starts": 32, "minibatch_size": 16, "min_env_steps_per_iteration": 60})
    found = []
    for executor in ("numpy", "eager"):
        with Training(EnvConfig(**game), MADDPG(config), seed=1, announce=pytest.fail) as training:
            training.update_executor = executor
            first = training.running.trainee.learner.flat()
            while training.running.trainee.learner.sgd_steps < 20:
                training.step()
            found.append(training.running.trainee.learner.flat())
    assert np.abs(found[0] - first).max() > 1e-3
    np.testing.assert_allclose(found[0], found[1], atol=rounding_error(16 + 20))


@KINDS
def test_the_traced_update_graph_matches_the_eager_update(spaces: Spaces) -> None:
    algorithm, _, batch = algorithm_outputs_and_rows(spaces, model={"hiddens": [4]})
    policy = policy_for(spaces, model={"hiddens": [4]})
    flat = policy.parameters.gather(policy.module)
    objectives = algorithm.objectives(policy)
    states = [
        fresh_state(objective.optimizer, policy.parameters.range_under(objective.parameters)[1])
        for objective in objectives
    ]
    update = Update(policy, objectives)
    scheduled = {"lr": torch.tensor(1e-2), "critic_lr": torch.tensor(1e-2)}
    arguments = flattened_arguments(Parameters(flat, flat * 0.5), states, batch, scheduled)
    function = traceable(update, states, batch, scheduled, has_target=True)
    graph = make_fx(function)(*(argument.clone() for argument in arguments))
    eager, traced = ([argument.clone() for argument in arguments] for _ in range(2))
    near = rounding_error(ROWS * MEMBERS)
    for _ in range(3):
        torch.testing.assert_close(graph(*traced), function(*eager), rtol=near, atol=near)
    torch.testing.assert_close(traced[0], eager[0], rtol=near, atol=near)
    assert not torch.equal(eager[0], flat)
