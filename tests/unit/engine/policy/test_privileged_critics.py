"""Critics that observe more than their actors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlrun.algorithms.a2c import A2C
from rlrun.algorithms.actor_q.ddpg import TD3
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.act.privileged_parts import privileged_parts
from rlrun.engine.training.training import Training
from tests.policies import loaded

SPLIT = Dict({"position": Box(-1.0, 1.0, (2,)), "velocity": Box(-1.0, 1.0, (3,))})
PRIVILEGED = {"hiddens": [8], "actor_sees": ["position"], "critic_sees": ["position", "velocity"]}
CARTPOLE = "rlrun.toys:DictCartPole"


def observations(velocity: float) -> dict[str, np.ndarray]:
    return {"position": np.full((4, 2), 0.5, np.float32), "velocity": np.full((4, 3), velocity, np.float32)}


def batch(velocity: float) -> SampleBatch:
    return SampleBatch(obs=map_tree(lambda leaf: torch.from_numpy(leaf[:, None]), observations(velocity)))


@pytest.mark.parametrize("core", [{}, {"core": "gru", "core_width": 4}])
@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_velocities_that_only_the_critic_sees_affect_values_and_not_the_policy(
    algorithm: Any, core: dict[str, Any]
) -> None:
    policy = algorithm(model={**PRIVILEGED, **core}).policy(Spaces(SPLIT, Discrete(2)), 1)
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    still, moving = batch(0.0), batch(0.9)
    for rows in (still, moving):
        rows["state"], rows["episode_starts"] = torch.zeros(4, 8), torch.ones(4, 1, dtype=torch.bool)
    slow, fast = policy.outputs(views, still), policy.outputs(views, moving)
    assert torch.equal(slow.distribution.outputs, fast.distribution.outputs)
    assert (slow.values - fast.values).abs().min() > 1e-3
    acting = loaded(policy).outputs(observations(0.9))
    np.testing.assert_allclose(acting, fast.distribution.outputs.detach()[:, 0].numpy(), atol=1e-5)


@pytest.mark.parametrize("algorithm", [SAC, TD3])
def test_velocities_that_only_the_critic_sees_affect_q_values_and_not_the_actor(algorithm: Any) -> None:
    policy = algorithm(model=PRIVILEGED).policy(Spaces(SPLIT, Box(-1.0, 1.0, (1,))), 1)
    views = policy.parameters.views(policy.parameters.gather(policy.module))
    outputs = policy.outputs(views, batch(0.0))
    networks = outputs.networks if algorithm is SAC else outputs
    slow, fast = batch(0.0)["obs"], batch(0.9)["obs"]
    assert torch.equal(networks.actor_outputs(slow), networks.actor_outputs(fast))
    actions = torch.zeros(4, 1, 1)
    assert (networks.values(slow, actions) - networks.values(fast, actions)).abs().min() > 1e-3
    assert loaded(policy).outputs({"position": observations(0.0)["position"]}).shape[0] == 4


def test_a_critic_may_also_see_less_than_its_actor() -> None:
    model = {"hiddens": [8], "critic_sees": ["velocity"]}
    policy = PPO(model=model).policy(Spaces(SPLIT, Discrete(2)), 1)
    assert policy.module.value_trunk[0].in_features == 3
    assert policy.module.policy_trunk[0].in_features == 5


def test_an_actor_that_sees_named_parts_also_sees_views_and_the_masks_of_its_entities() -> None:
    space = Dict({"others": Box(-1.0, 1.0, (3, 2)), "there": MultiBinary(3), "own": Box(-1.0, 1.0, (2,))})
    seen = {"observations": {"others": {"encode_as": "entities", "mask": "there"}}, "actor_sees": ["others"]}
    algorithm = PPO(model={"hiddens": [8], "views": {"prev_actions": 1}, **seen})
    policy = algorithm.policy(Spaces(space, Discrete(2)), 1)
    assert policy.module.policy_trunk[0].in_features == 64 + 2
    assert policy.module.value_trunk[0].in_features == 64 + 2 + 2
    assert list(privileged_parts(space, algorithm.config.model).placeholders) == ["own"]


def test_networks_that_name_all_parts_have_the_same_parameters_as_those_that_name_none() -> None:
    spaces = Spaces(SPLIT, Discrete(2))
    plain, named = (
        PPO(model={"hiddens": [8], **sees}).policy(spaces, 1)
        for sees in ({}, {"actor_sees": ["velocity", "position"], "critic_sees": ["position", "velocity"]})
    )
    assert torch.equal(plain.parameters.gather(plain.module), named.parameters.gather(named.module))


def test_a_restored_run_with_a_privileged_critic_continues_bit_for_bit(tmp_path) -> None:
    settings = {"train_batch_size": 64, "minibatch_size": 32, "min_env_steps_per_iteration": 0, "compile": False}
    algorithm = PPO(model=PRIVILEGED, normalize_observations=True, num_envs_per_worker=2, **settings)
    with Training(CARTPOLE, algorithm, seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        training.step()
        expected = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def test_errors_for_unknown_parts_suggest_the_nearest_name_and_unsupported_networks_are_refused(wording) -> None:
    with wording.raised(UsageError, "model.actor_sees", "positon", "position"):
        PPO(model={"actor_sees": ["positon"]}).policy(Spaces(SPLIT, Discrete(2)), 1)
    with wording.raised(UsageError, "model.critic_sees"):
        PPO(model={"critic_sees": ["x"]}).policy(Spaces(SPLIT["position"], Discrete(2)), 1)
    with pytest.raises(UsageError, match="without shared layers"):
        PPO(model={"actor_sees": ["position"], "shared_value": True}).policy(Spaces(SPLIT, Discrete(2)), 1)
    with wording.raised(SpecError):
        DQN(model={"actor_sees": ["position"]})
