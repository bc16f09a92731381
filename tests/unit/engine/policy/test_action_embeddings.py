"""Actions described by features: their logits and values do not depend on their positions in the list."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlrun.algorithms.dqn.policy import QPolicy
from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.algorithms.multi_agent.mappo import MAPPOConfig
from rlrun.algorithms.multi_agent.state_value_policy import StateValuePolicy
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ModelConfig, QModelConfig, SoftModelConfig, StateValueModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import loaded, plain_policy, policy_from
from tests.rounding import rounding_error

NUMBER, FEATURES, ROWS = 5, 3, 40
LISTED = Box(-1, 1, (NUMBER, FEATURES))
SEEN = Dict({"actions": LISTED, "action_mask": MultiBinary(NUMBER), "state": Box(-1, 1, (4,))})
ACTIONS = Discrete(NUMBER)
# Counts the inputs of the layers for the state and for a listed action, and those of the product of their outputs.
NEAR = rounding_error(4 + 8 + FEATURES + 8 + 8)


def actor_critic(space=SEEN, actions=ACTIONS, normalize=False, **model):
    config = ModelConfig(hiddens=(8,), action_embeddings="actions", **model)
    return plain_policy(ActorCriticPolicy, space, actions, config, normalize_observations=normalize, seed=3)


def q_policy(space=SEEN, actions=ACTIONS, **how):
    config = QModelConfig(hiddens=(8,), activation="relu", orthogonal_init=False, action_embeddings="actions")
    return plain_policy(QPolicy, space, actions, config, seed=3, **how)


def mappo_policy():
    config = StateValueModelConfig(hiddens=(8,), action_embeddings="actions")
    return policy_from(StateValuePolicy, MAPPOConfig, SEEN, ACTIONS, config, seed=3)


POLICIES = {
    "actor-critic": actor_critic,
    "shared": lambda: actor_critic(shared_value=True),
    "with memory": lambda: actor_critic(core="gru", core_width=6),
    "q": q_policy,
    "mappo": mappo_policy,
}


def flat_of(policy):
    return np.random.default_rng(0).normal(size=policy.parameters.size).astype(np.float32)


def observations_of(seed=1):
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (ROWS, NUMBER), np.int8)
    mask[np.arange(ROWS), rng.integers(0, NUMBER, ROWS)] = 1
    return {
        "actions": rng.uniform(-1, 1, (ROWS, NUMBER, FEATURES)).astype(np.float32),
        "action_mask": mask,
        "state": rng.uniform(-1, 1, (ROWS, 4)).astype(np.float32),
    }


def outputs_of(policy, observations):
    """The learner's masked outputs for the actions, [N, K]."""
    views = policy.parameters.views(torch.from_numpy(flat_of(policy)))
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    if isinstance(policy, QPolicy):
        values = policy.outputs(views, SampleBatch(obs=rows)).values(rows)
        return torch.where(rows["action_mask"] != 0, values, torch.tensor(-1e9))[:, 0].detach().numpy()
    memory = {"state": torch.zeros(ROWS, 12), "episode_starts": torch.ones(ROWS, 1, dtype=torch.bool)}
    return policy.outputs(views, SampleBatch(obs=rows, **memory)).distribution.outputs[:, 0].detach().numpy()


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_numpy_and_torch_agree_on_listed_actions(make):
    policy, observations = make(), observations_of()
    acted = loaded(policy, flat_of(policy)).outputs(observations)
    np.testing.assert_allclose(acted, outputs_of(policy, observations), rtol=NEAR, atol=NEAR)
    assert acted[acted > -1e8].std() > 0.1


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_reordering_the_listed_actions_reorders_their_logits(make):
    policy, observations = make(), observations_of()
    order = np.random.default_rng(2).permutation(NUMBER)
    moved = {**observations, **{key: observations[key][:, order] for key in ("actions", "action_mask")}}
    np.testing.assert_allclose(
        loaded(policy, flat_of(policy)).outputs(moved),
        loaded(policy, flat_of(policy)).outputs(observations)[:, order],
        rtol=NEAR,
        atol=NEAR,
    )
    np.testing.assert_allclose(
        outputs_of(policy, moved), outputs_of(policy, observations)[:, order], rtol=NEAR, atol=NEAR
    )


def test_the_number_of_listed_actions_does_not_change_the_parameters():
    longer = Dict({**SEEN.spaces, "actions": Box(-1, 1, (50, FEATURES)), "action_mask": MultiBinary(50)})
    assert actor_critic(longer, Discrete(50)).parameters.size == actor_critic().parameters.size


def test_logits_are_the_scaled_dot_product_of_both_embeddings():
    policy, observations = actor_critic(activation="tanh"), observations_of()
    named = policy.parameters.named(flat_of(policy))
    views = policy.parameters.views(torch.from_numpy(flat_of(policy)))
    rows = map_tree(lambda leaf: torch.as_tensor(leaf)[:, None], observations)
    query = policy.network(views, {"obs": rows})[0]["outputs"][:, 0].detach().numpy()
    hidden = np.tanh(observations["actions"] @ named["decoder.hidden.weight"].T + named["decoder.hidden.bias"])
    keys = hidden @ named["decoder.embedding.weight"].T + named["decoder.embedding.bias"]
    expected = np.einsum("nd,nkd->nk", query, keys) / np.sqrt(8)
    found = outputs_of(policy, observations)
    np.testing.assert_allclose(found[found > -1e8], expected[observations["action_mask"] == 1], rtol=NEAR, atol=NEAR)


def test_observation_statistics_cover_the_state_but_not_the_list_of_actions():
    policy = actor_critic(normalize=True)
    behavior = loaded(policy, flat_of(policy))
    moments = behavior.collector.moments(
        map_tree(lambda leaf: leaf[None], observations_of()), np.ones((1, ROWS), np.bool_)
    )
    assert list(moments) == ["observations/state"]
    assert isinstance(moments["observations/state"], Moments)


def test_a_list_of_actions_needs_no_mask():
    space = Dict({key: SEEN[key] for key in ("actions", "state")})
    observations = {key: leaf for key, leaf in observations_of().items() if key != "action_mask"}
    policy = actor_critic(space)
    assert (loaded(policy, flat_of(policy)).outputs(observations) > -1e8).all()


@pytest.mark.parametrize(
    ("space", "actions", "reason"),
    [
        (SEEN, MultiDiscrete([2, 3]), "needs a Discrete action space, but this env has MultiDiscrete"),
        (SEEN, Discrete(6), r"part 'actions' is Box.* needs a Box of shape \(6, F\)"),
        (Dict({"state": Box(-1, 1, (4,))}), ACTIONS, "part 'actions' is missing"),
        (
            Dict({"actions": LISTED, "action_mask": MultiBinary(NUMBER)}),
            ACTIONS,
            "model.action_embeddings: the observation contains only the action features",
        ),
        (LISTED, ACTIONS, "part 'actions' is missing"),
    ],
)
def test_spaces_that_list_no_actions_are_refused(space, actions, reason):
    if "action_mask" in getattr(space, "spaces", {}) and actions != ACTIONS:
        space = Dict({key: part for key, part in space.items() if key != "action_mask"})
    with pytest.raises(UsageError, match=reason):
        actor_critic(space, actions)


@pytest.mark.parametrize("how", [{"dueling": True}, {"noisy_sigma": 0.5}, {"returns": ReturnModel("c51")}], ids=str)
def test_action_embeddings_refuse_dueling_noisy_and_distributional_q_values(how, wording):
    with wording.raised(UsageError):
        q_policy(**how)


def test_the_list_of_actions_cannot_be_given_another_encoding(wording):
    with wording.raised(SpecError, "actions", "action_embeddings"):
        ModelConfig.parse({"action_embeddings": "actions", "observations": {"actions": {"encode_as": "entities"}}})


def test_networks_without_action_embeddings_refuse_the_setting(wording):
    with wording.raised(SpecError):
        SoftModelConfig.parse({"action_embeddings": "actions"})
