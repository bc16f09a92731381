"""Network settings that depend on the observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rlrun.algorithms.dqn.policy import q_spec
from rlrun.engine.nn.model_config import ModelConfig, QModelConfig
from rlrun.engine.nn.network_spec import chosen_by_observation, hidden_widths, shares_value
from rlrun.engine.nn.observation_leaves import observation_leaves
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.actor_critic import policy_value_spec

IMAGE = Box(0, 255, (4, 36, 36), np.uint8)
NUMBERS = Box(-1, 1, (3,))
MASK = Box(0, 1, (2,), np.int8)


def leaves(space: Any) -> Any:
    return observation_leaves(space, {}, normalize=False)


@pytest.mark.parametrize(
    ("space", "widths", "shared"),
    [
        (NUMBERS, [64, 64], False),
        (Discrete(5), [64, 64], False),
        (IMAGE, [], True),
        (Dict(front=IMAGE, back=IMAGE), [], True),
        (Dict(screen=IMAGE, action_mask=MASK), [], True),
        (Dict(screen=IMAGE, speed=NUMBERS), [64, 64], True),
    ],
)
def test_image_only_networks_have_no_dense_layers_and_policy_and_value_share_image_encoders(
    space: Any, widths: list[int], shared: bool
) -> None:
    assert chosen_by_observation(ModelConfig(), leaves(space)) == {"hiddens": widths, "shared_value": shared}
    assert chosen_by_observation(QModelConfig(), leaves(space)) == {"hiddens": widths}


def test_explicit_settings_override_the_choices_for_images() -> None:
    model = ModelConfig(hiddens=(8,), shared_value=False)
    assert chosen_by_observation(model, leaves(IMAGE)) == {}
    assert (hidden_widths(model, leaves(IMAGE)), shares_value(model, leaves(IMAGE))) == ((8,), False)


def test_the_networks_of_policies_use_the_layers_chosen_for_their_observations() -> None:
    actions = make_action_space(Discrete(2))
    (tower,) = policy_value_spec(leaves(IMAGE), actions, ModelConfig()).towers
    assert [head.name for head in tower.heads] == ["outputs", "value"]
    assert len(policy_value_spec(leaves(NUMBERS), actions, ModelConfig()).towers) == 2
    assert policy_value_spec(leaves(IMAGE), actions, ModelConfig()).hiddens == ()
    for dueling in (False, True):
        assert q_spec(leaves(IMAGE), QModelConfig(), 2, 1, dueling=dueling).hiddens == ()
    assert q_spec(leaves(NUMBERS), QModelConfig(), 2, 1, dueling=True).hiddens == (64,)
