"""VDN and QMIX: targets of teams, least-squares fits of tables, exact resume, and unsupported worlds."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlrun.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from rlrun.algorithms.multi_agent.qmix import QMIX, QMIXConfig
from rlrun.algorithms.multi_agent.vdn import VDN, VDNConfig
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world_view import WorldView
from tests.results import numbers
from tests.rounding import rounding_error

ACTIONS, MEMBERS = 2, 2
SPACES = Spaces(Box(-1, 1, (MEMBERS,)), Discrete(ACTIONS))
WORLD = WorldView(Box(-1, 1, (1,)), MEMBERS, "parallel")
TABLE = np.array([[0.0, 1.0], [1.0, 8.0]])
FAST: dict[str, Any] = {"model": {"hiddens": []}, "optimizer": "adam"}


def team_rows(rewards: list[float], actions: list[list[int]], **columns: Any) -> SampleBatch:
    """Rows in which each member observes its own index."""
    rows = len(rewards)
    obs = {
        "agents": torch.eye(MEMBERS).expand(rows, 1, MEMBERS, MEMBERS),
        "present": columns.pop("present", torch.ones(rows, 1, MEMBERS, dtype=torch.bool)),
        "state": torch.ones(rows, 1, 1),
    }
    batch = SampleBatch(
        obs=obs,
        next_obs=obs,
        actions=torch.tensor(actions)[:, None],
        rewards=torch.tensor(rewards)[:, None],
        discounts=torch.zeros(rows, 1),
        weights=torch.ones(rows, 1),
        valid=torch.ones(rows, 1, dtype=torch.bool),
    )
    return SampleBatch(batch, **columns)


ALL = team_rows(TABLE.ravel().tolist(), [[0, 0], [0, 1], [1, 0], [1, 1]])


def fitted(algorithm: VDN, steps: int, lr: float) -> torch.Tensor:
    """Returns the team's values of all joint actions after SGD on all entries of the table, [4]."""
    policy = algorithm.policy_in_world(SPACES, WORLD, seed=0)
    learner = LocalLearner(
        policy,
        algorithm.objectives(policy),
        device="cpu",
        update_executor="numpy",
        runs_users_code=False,
        seed=0,
        has_target=True,
    )
    batch = ALL.map(lambda leaf: leaf.numpy())
    for step in range(steps):
        learner.step(batch, scheduled={"lr": lr if step < steps / 2 else lr / 10})
    views = policy.parameters.views(torch.from_numpy(learner.flat()))
    return policy.outputs(views, ALL).team_values(ALL["obs"], ALL["actions"]).detach().flatten()


def additive_fit() -> np.ndarray:
    """The least-squares fit of the table by a sum of one value for each member's action, [4]."""
    design = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]], np.float64)
    fit: np.ndarray = design @ np.linalg.lstsq(design, TABLE.ravel(), rcond=None)[0]
    return fit


def test_vdn_learns_the_least_squares_fit_of_a_non_additive_table() -> None:
    np.testing.assert_allclose(additive_fit(), [-1.5, 2.5, 2.5, 6.5])
    found = fitted(VDN(VDNConfig(**FAST)), 200, 0.1)
    np.testing.assert_allclose(found, additive_fit(), atol=0.02)
    assert found.argmax() == TABLE.argmax()


def test_qmix_fits_a_non_additive_table() -> None:
    np.testing.assert_allclose(fitted(QMIX(QMIXConfig(**FAST, mixer_hidden=8)), 300, 0.05), TABLE.ravel(), atol=0.1)


def loss_and_outputs(algorithm: VDN, batch: SampleBatch, spaces: Spaces = SPACES) -> tuple[Any, Any]:
    policy = algorithm.policy_in_world(spaces, WORLD, seed=1)
    flat = policy.parameters.gather(policy.module)
    target = flat + 0.1 * torch.randn(len(flat), generator=torch.Generator().manual_seed(2))
    outputs = policy.outputs(policy.parameters.views(flat), batch, policy.parameters.views(target))
    return algorithm.loss(outputs, batch, {}), outputs


@pytest.mark.parametrize("make", [lambda **more: VDN(VDNConfig(**more)), lambda **more: QMIX(QMIXConfig(**more))])
@pytest.mark.parametrize("double", [True, False])
def test_the_loss_is_the_mean_squared_td_error_with_next_values_from_the_target_networks(
    make: Any, double: bool
) -> None:
    batch = SampleBatch(ALL, discounts=torch.tensor([[0.0], [0.9], [0.9], [0.5]]))
    loss, outputs = loss_and_outputs(make(double=double), batch)
    values = outputs._values(outputs.views if double else outputs.target_views, batch["next_obs"])
    following = outputs.target_team_values(batch["next_obs"], values.argmax(-1))
    errors = outputs.team_values(batch["obs"], batch["actions"]) - batch["rewards"] - batch["discounts"] * following
    assert loss.total.item() == pytest.approx(errors.square().mean().item(), rel=rounding_error(4))
    torch.testing.assert_close(loss.priorities, errors.abs().squeeze(-1).detach())


def test_an_absent_member_does_not_contribute_to_the_team_value() -> None:
    present = torch.tensor([[[True, False]]] * 4)
    batch = team_rows([1.0] * 4, ALL["actions"][:, 0].tolist(), present=present)
    _, outputs = loss_and_outputs(VDN(VDNConfig()), batch)
    own = outputs._values(outputs.views, batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(outputs.team_values(batch["obs"], batch["actions"]), own[..., 0])


def test_greedy_next_actions_respect_action_masks() -> None:
    spaces = Spaces(Dict({"action_mask": MultiBinary(ACTIONS), "who": SPACES.observation}), SPACES.action)
    masks = torch.tensor([[[1, 0], [0, 1]]] * 4, dtype=torch.int8)[:, None]
    seen = {**ALL["obs"], "agents": {"action_mask": masks, "who": ALL["obs"]["agents"]}}
    _, outputs = loss_and_outputs(VDN(VDNConfig()), SampleBatch(ALL, obs=seen, next_obs=seen), spaces)
    assert outputs.greedy_actions(seen).tolist() == [[[0, 1]]] * 4


@pytest.mark.parametrize("cls", [VDN, QMIX])
def test_single_agent_envs_are_refused_with_advice_to_use_dqn_and_unsupported_worlds_are_refused(
    cls: type[VDN], wording
) -> None:
    algorithm = cls(cls.Config())
    with pytest.raises(UsageError, match="use dqn"):
        algorithm.policy(SPACES, seed=0)
    with wording.raised(UsageError):
        algorithm.policy_in_world(SPACES, WorldView(WORLD.state_space, 2, "per_agent"), seed=0)


def test_qmix_needs_the_state_of_the_world_and_vdn_does_not() -> None:
    stateless = WorldView(None, 2, "parallel")
    assert VDN(VDNConfig()).policy_in_world(SPACES, stateless, seed=0).behavior().collector.world_columns == ("acts",)
    with pytest.raises(UsageError, match="use vdn"):
        QMIX(QMIXConfig()).policy_in_world(SPACES, stateless, seed=0)


GAME = EnvConfig(world="rlrun.toys:TwoStepGame")
SMALL = {
    "num_envs_per_worker": 3,
    "learning_starts": 20,
    "minibatch_size": 8,
    "min_env_steps_per_iteration": 50,
    "replay": {"sampling": "prioritized", "capacity": 120},
    "n_step": 2,
    "mixer_hidden": 4,
}


def test_a_qmix_run_resumed_with_its_replay_matches_an_uninterrupted_run_bit_for_bit() -> None:
    with Training(GAME, QMIX(QMIXConfig.parse(SMALL)), seed=3) as whole:
        for _ in range(3):
            whole.step()
        content = whole.content({})
        expected = [numbers(whole.step()) for _ in range(2)]
        stored = whole.running.trainee.learner.flat()
    with Training(GAME, QMIX(QMIXConfig.parse(SMALL)), seed=3) as resumed:
        resumed.load(content)
        assert [numbers(resumed.step()) for _ in range(2)] == expected
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), stored)


def test_the_agent_network_is_sent_to_workers_but_the_mixer_is_not() -> None:
    with Training(GAME, QMIX(QMIXConfig.parse(SMALL)), seed=3) as training:
        training.step()
        policy = training.running.trainee.policy
        assert len(training.running.trainee.weights().acting) == sum(
            p.numel() for p in policy.module.agents.parameters()
        )
        assert policy.parameters.size > len(training.running.trainee.weights().acting)


def test_a_qmix_team_and_a_mappo_policy_learn_in_the_same_world() -> None:
    policies = Policies(
        {
            "first": QMIX(QMIXConfig.parse({name: SMALL[name] for name in ("learning_starts", "minibatch_size")})),
            "second": MAPPO(MAPPOConfig(train_batch_size=24, minibatch_size=12)),
        },
        WorldSamplingSettings(num_envs_per_worker=3, min_env_steps_per_iteration=60),
        mapping={"agent_0": "first", "agent_1": "second"},
    )
    with Training(GAME, policies, seed=1) as training:
        result = training.step()
    assert result["policies/first/sgd_steps"] > 0
    assert result["policies/second/sgd_steps"] > 0
