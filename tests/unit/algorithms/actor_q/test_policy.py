"""Custom actor-critics: their number of critics, critics with other outputs, and additional networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun import DDPG, SAC, Training
from rlrun.algorithms.actor_q.actor_q_nets import critic_spec
from rlrun.algorithms.actor_q.deterministic_policy import DeterministicPolicy
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.learner import Learner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.config import defaults
from rlrun.engine.settings.metric import Metric

SPACES = Spaces(Box(-1, 1, (3,)), Box(-1, 1, (2,)))
SMALL: dict[str, Any] = {
    "model": {"hiddens": [4]},
    "learning_starts": 10,
    "minibatch_size": 8,
    "training_intensity": 1.0,
    "min_env_steps_per_iteration": 12,
    "compile": False,
}


@defaults(num_critics=3)
class CautiousConfig(SACConfig):
    """Settings of `Cautious`."""


class Cautious(SAC):
    """SAC with the minimum of three critics, and a state-value network that learns an expectile of this minimum."""

    Config = CautiousConfig
    learner_metrics = (
        *SAC.learner_metrics,
        Metric("value/loss", "", "Loss of the state values"),
        GRAD_NORM.below("value/"),
    )

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        return SoftPolicy(spaces, self.config, seed, extra={"value": critic_spec})

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return [*super().objectives(policy), Objective("value", self.value_loss, parameters="value.")]

    def value_loss(self, outputs: SquashedNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Expectile regression towards values of recorded actions (Kostrikov et al., arXiv:2110.06169, eq. 5)."""
        networks, valid = outputs.networks, batch["valid"].float()
        observations = networks.present(batch)
        values = networks.outputs_of("value", observations).squeeze(-1)
        errors = networks.target_values(observations, batch["actions"]).amin(0).detach() - values
        loss = masked_mean((0.7 - (errors < 0).float()).abs() * errors.square(), valid)
        return Loss(loss, {"loss": loss})


def named(learner: Learner) -> dict[str, NDArray[np.float32]]:
    return learner.policy.parameters.named(learner.flat())


def test_a_custom_actor_critic_with_a_value_network_learns_and_resumes_exactly(tmp_path: Path) -> None:
    with Training("Pendulum-v1", Cautious(**SMALL), seed=1) as training:
        training.start()
        learner = training.running.trainee.learner
        before = named(learner)
        result = training.step()
        after = named(learner)
        assert result["sgd_steps"] == 2
        assert all(np.isfinite(array).all() for array in after.values())
        moved = {name.partition("trunk.")[0] for name in after if (after[name] != before[name]).any()}
        assert moved >= {"critics.0.", "critics.1.", "critics.2.", "actor.", "value."}
        training.save(tmp_path / "checkpoint")
        training.step()
        expected = named(learner)
    with Training.restore(tmp_path / "checkpoint", trust=True) as restored:
        again = restored.running.trainee.learner
        assert {name: array.shape for name, array in named(again).items()} == {
            name: array.shape for name, array in before.items()
        }
        restored.step()
        for name, array in named(again).items():
            np.testing.assert_array_equal(array, expected[name])


def test_a_custom_policy_can_use_the_minimum_over_all_three_critics() -> None:
    policy = Cautious(model={"hiddens": []}).policy(SPACES, 0)
    generator = torch.Generator().manual_seed(0)
    views = policy.parameters.views(torch.randn(policy.parameters.size, generator=generator))
    outputs = policy.outputs(views, SampleBatch())
    batch = SampleBatch(obs=torch.randn(64, 1, 3, generator=generator), noise=torch.zeros(64, 1, 2))
    actions, log_probs = outputs.sample(batch["obs"], batch["noise"])
    values = outputs.networks.critic_outputs(batch["obs"], actions)[..., 0]
    found = outputs.sample_and_evaluate(batch)
    assert torch.equal(found.values, torch.minimum(torch.minimum(values[0], values[1]), values[2]))
    assert torch.equal(found.log_probs, log_probs)
    assert set(values.argmin(0).unique().tolist()) == {0, 1, 2}


def test_extra_networks_do_not_change_the_initial_parameters_of_actor_and_critics() -> None:
    for algorithm, family in ((SAC, SoftPolicy), (DDPG, DeterministicPolicy)):
        config = algorithm.Config.parse({"model": {"hiddens": [4]}})
        plain, more = family(SPACES, config, 3), family(SPACES, config, 3, extra={"value": critic_spec})
        names = [slot.name for slot in plain.parameters.slots]
        assert [slot.name for slot in more.parameters.slots][: len(names)] == names
        first = more.parameters.gather(more.module)[: plain.parameters.size]
        assert torch.equal(first, plain.parameters.gather(plain.module))


@pytest.mark.parametrize(("algorithm", "family"), [(SAC, SoftPolicy), (DDPG, DeterministicPolicy)])
@pytest.mark.parametrize(
    ("model", "normalized"),
    [
        ({}, set()),
        ({"critic_normalization": "layer"}, {"critics", "value"}),
        ({"normalization": "layer"}, {"critics", "value", "actor"}),
    ],
    ids=["none", "critics", "all"],
)
def test_layer_normalization_can_apply_to_the_critics_alone_or_to_all_networks(
    algorithm: Any, family: Any, model: dict[str, Any], normalized: set[str]
) -> None:
    config = algorithm.Config.parse({"model": {"hiddens": [4], **model}})
    policy = family(SPACES, config, 0, extra={"value": critic_spec})
    assert {slot.name.partition(".")[0] for slot in policy.parameters.slots if ".norm." in slot.name} == normalized


def test_num_critics_determines_parameter_shapes_but_num_target_critics_does_not() -> None:
    for algorithm in (SAC, DDPG):
        assert algorithm.Config.shapes_parameters("num_critics")
        assert not algorithm.Config.shapes_parameters("num_target_critics")


def test_a_critic_factory_determines_the_shape_of_the_critics_outputs() -> None:
    policy = DeterministicPolicy(
        SPACES,
        DDPG.Config.parse({"model": {"hiddens": [4]}}),
        seed=0,
        critic=lambda leaves, model, num_values, size: critic_spec(leaves, model, 7 * num_values, size),
    )
    outputs = policy.outputs(dict(policy.module.named_parameters()), SampleBatch())
    assert outputs.values(torch.zeros(5, 1, 3), torch.zeros(5, 1, 2)).shape == (1, 5, 1, 7)
