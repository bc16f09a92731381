"""Exported policies act like the originals: networks x action spaces x families, greedy and sampled."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn

from rlrun.algorithms.actor_q.ddpg import TD3
from rlrun.algorithms.actor_q.presets import TQC, XQC, CrossQ, DroQ, FlashSAC, SimBa
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.decision_transformer.dt import DT
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.dreamer.dreamer import Dreamer
from rlrun.algorithms.ppo import PPO
from rlrun.algorithms.random.random import Random
from rlrun.algorithms.recurrent_q.r2d2 import R2D2
from rlrun.deploy.export.c_file import c_runner, c_source
from rlrun.deploy.export.check import SLOTS, ExportDiffers, ObservationStream, compare
from rlrun.deploy.export.graph import Untraceable
from rlrun.deploy.export.onnx_file import onnx_model, onnx_runner
from rlrun.deploy.export.policy_graph import policy_graph
from rlrun.deploy.export.saved_policy import recorded_policy
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_kind import ACTION_KINDS, ActionKind
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.moments import Moments
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.training.act.privileged_parts import PrivilegedParts, privileged_parts

SMALL = {"hiddens": (8,)}
VECTOR = Box(-9.0, 9.0, (3,))
ENTITIES = Dict({"all": Box(-1.0, 1.0, (4, 3)), "there": MultiBinary(4), "rest": Discrete(3, start=1)})
NESTED = Tuple((Discrete(3), Dict({"x": Box(-np.inf, np.inf, (2, 2)), "y": MultiBinary(2)})))
SPLIT = Dict({"choice": Discrete(3, start=4), "position": Box(-1.0, 1.0, (2,)), "velocity": Box(-1.0, 1.0, (3,))})
IMAGE = Box(0, 255, (20, 21, 3), np.uint8)
LARGE_IMAGE = Box(0, 255, (2, 36, 37), np.uint8)

NETWORKS: dict[str, tuple[gymnasium.Space[Any], dict[str, Any]]] = {
    "dense": (VECTOR, {**SMALL, "activation": "tanh"}),
    "normalized layers, elu": (VECTOR, {**SMALL, "normalization": "layer", "activation": "elu"}),
    "silu over a nested observation": (NESTED, {**SMALL, "activation": "silu"}),
    "lstm": (VECTOR, {**SMALL, "core": "lstm", "core_width": 6}),
    "gru": (VECTOR, {**SMALL, "core": "gru", "core_width": 6}),
    "gtrxl": (VECTOR, {**SMALL, "core": "gtrxl"}),
    "impala": (IMAGE, {"conv": "impala"}),
    "small convolutions": (IMAGE, {}),
    "nature": (LARGE_IMAGE, {}),
    "attention over entities": (
        ENTITIES,
        {**SMALL, "observations": {"all": {"encode_as": "entities", "pooling": "attention", "mask": "there"}}},
    ),
    "embeddings": (MultiDiscrete([3, 5]), {**SMALL, "observations": {"": {"encode_as": "embedding"}}}),
    "views": (VECTOR, {**SMALL, "views": {"obs": 3, "prev_actions": 2, "prev_rewards": 2}}),
    "views of choices, lstm": (
        Discrete(4),
        {**SMALL, "core": "lstm", "core_width": 6, "views": {"obs": 2, "prev_actions": 1}},
    ),
}
ACTIONS: dict[str, gymnasium.Space[Any]] = {
    "discrete": Discrete(3, start=2),
    "multi-discrete": MultiDiscrete([2, 3]),
    "multi-binary": MultiBinary(2),
    "box": Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
    "unbounded": Box(-np.inf, np.inf, (1, 2)),
    "tuple": Tuple((Discrete(3), Dict({"a": Box(-1.0, 1.0, (2,)), "b": MultiBinary(1)}))),
}


def acting(algorithm: Algorithm[Any], spaces: Spaces) -> tuple[BehaviorPolicy, Policy]:
    """A behavior policy with random weights, and its policy."""
    policy = algorithm.policy(spaces, 0)
    with torch.no_grad():
        for name, parameter in policy.module.named_parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
            if parameter.ndim < 4:  # not convolutions, whose large outputs would show rounding errors
                parameter.add_(noise / 4 / max(1, parameter[:1].numel()) ** 0.5)
            if name.endswith(".variance"):
                parameter.abs_()
    behavior, (start, size) = policy.behavior(), policy.acting_range
    flat = policy.parameters.gather(policy.module).numpy()[start : start + size]
    filters = {}
    if behavior.filter is not None:
        rng = np.random.default_rng(0)
        columns = behavior.filter.columns(batched(spaces.observation, spaces.observation.sample()))
        filters = {name: Moments.of(rng.normal(1, 2, (50, *column.shape[1:])), 1) for name, column in columns.items()}
    schedules = dict.fromkeys(behavior.schedules, 0.3)
    behavior.load(Weights(0, flat, filters=filters, env_steps=10**9, schedules=schedules))
    return behavior, policy


def stream_of(space: gymnasium.Space[Any], steps: int = 12) -> ObservationStream:
    """Random observations, in episodes of a few steps."""
    space.seed(1)
    rng = np.random.default_rng(1)
    rows = batched(space, *(space.sample() for _ in range(steps * SLOTS)))
    starts = rng.random((steps, SLOTS)) < 0.2
    starts[0] = True
    observations = map_tree(lambda leaf: leaf.reshape(steps, SLOTS, *leaf.shape[1:]), rows)
    return ObservationStream(observations, rng.normal(size=starts.shape), starts)


def compared(algorithm: Algorithm[Any], spaces: Spaces, *, actions: ActionKind = "greedy") -> float:
    behavior, _ = acting(algorithm, spaces)
    parts = privileged_parts(spaces.observation, algorithm.config.model)
    policy = policy_graph(behavior, spaces, parts, actions=actions, scores="outputs")
    runner = onnx_runner(onnx_model(policy.graph, {}), policy.graph.outputs)
    return compare(behavior, policy, runner, stream_of(spaces.observation), seed=0).difference


FAMILIES: dict[str, tuple[Algorithm[Any], gymnasium.Space[Any], gymnasium.Space[Any]]] = {
    "double dueling dqn": (DQN(model=SMALL, dueling=True), VECTOR, ACTIONS["discrete"]),
    "noisy c51 of images": (
        DQN(model={"hiddens": (8,)}, noisy=True, distribution="c51", num_atoms=5, v_min=-1, v_max=1),
        IMAGE,
        ACTIONS["discrete"],
    ),
    "qr-dqn": (DQN(model=SMALL, distribution="quantile", num_atoms=4), NESTED, ACTIONS["discrete"]),
    "r2d2": (R2D2(model={**SMALL, "core": "lstm", "core_width": 6}), VECTOR, ACTIONS["discrete"]),
    "sac": (SAC(model=SMALL, normalize_observations=True), NESTED, ACTIONS["box"]),
    "td3": (TD3(model=SMALL), VECTOR, ACTIONS["box"]),
    "tqc with a core": (TQC(model={**SMALL, "core": "gru", "core_width": 6}), VECTOR, ACTIONS["box"]),
    "droq": (DroQ(model={**SMALL, "normalization": "layer"}), VECTOR, ACTIONS["box"]),
    "crossq": (CrossQ(model={**SMALL, "critic_hiddens": (8,)}), NESTED, ACTIONS["box"]),
    "crossq of images": (CrossQ(model={"hiddens": (8,), "critic_hiddens": (8,)}), IMAGE, ACTIONS["box"]),
    "simba": (SimBa(model={"hiddens": (8, 8), "critic_hiddens": (8,)}), NESTED, ACTIONS["box"]),
    "simba of images": (SimBa(model={"hiddens": (8,), "critic_hiddens": (8,)}), IMAGE, ACTIONS["box"]),
    "xqc": (XQC(model={"hiddens": (8, 8), "critic_hiddens": (8,)}), NESTED, ACTIONS["box"]),
    "xqc of images": (XQC(model={"hiddens": (8,), "critic_hiddens": (8,)}), IMAGE, ACTIONS["box"]),
    "flashsac": (FlashSAC(model={"hiddens": (8, 8), "critic_hiddens": (8,)}), NESTED, ACTIONS["box"]),
    "flashsac of images": (FlashSAC(model={"hiddens": (8,), "critic_hiddens": (8,)}), IMAGE, ACTIONS["box"]),
    "ppo of positions, privileged critic": (
        PPO(model={**SMALL, "actor_sees": ["position"]}),
        SPLIT,
        ACTIONS["discrete"],
    ),
    "gru of positions, privileged critic": (
        PPO(model={**SMALL, "core": "gru", "core_width": 6, "actor_sees": ["position"]}),
        SPLIT,
        ACTIONS["discrete"],
    ),
    "sac of positions, privileged critics": (SAC(model={**SMALL, "actor_sees": ["position"]}), SPLIT, ACTIONS["box"]),
    "gSDE": (PPO(model={**SMALL, "use_sde": True}), VECTOR, ACTIONS["box"]),
    "autoregressive": (PPO(model={**SMALL, "autoregressive": True}), VECTOR, ACTIONS["tuple"]),
    "autoregressive choices": (PPO(model={**SMALL, "autoregressive": True}), VECTOR, ACTIONS["multi-discrete"]),
    "dreamer": (
        Dreamer(model={"hiddens": (8,), "recurrent_width": 8, "latents": 3, "classes": 4}),
        VECTOR,
        ACTIONS["box"],
    ),
    "dt": (DT(context_length=3, embedding=8, num_layers=1, max_steps=9, target_return=5), VECTOR, ACTIONS["discrete"]),
    "dt in a box": (DT(context_length=3, embedding=8, num_layers=1, num_heads=2, max_steps=9), VECTOR, ACTIONS["box"]),
}


IN_TORCH = ("gtrxl", "impala", "small convolutions", "nature", "attention over entities", "embeddings")
CELLS = [
    (network, action)
    for network in NETWORKS
    for action in ACTIONS
    if not (action == "tuple" and network.startswith("views"))
]
"""Networks and action spaces: no network sees earlier actions of a Tuple."""


def is_cheap(network: str, action: str) -> bool:
    """Whether a combination is always tested: torch's networks with one action space each."""
    return network not in IN_TORCH or [*ACTIONS][IN_TORCH.index(network)] == action


@pytest.mark.parametrize(("network", "action"), [cell for cell in CELLS if is_cheap(*cell)])
def test_an_exported_actor_acts_like_the_policy_for_each_pair_of_network_and_action_space(
    network: str, action: str
) -> None:
    observation, model = NETWORKS[network]
    kind = ACTION_KINDS[([*NETWORKS].index(network) + [*ACTIONS].index(action)) % 2]
    compared(PPO(model=model, normalize_observations=True), Spaces(observation, ACTIONS[action]), actions=kind)


@pytest.mark.regress
@pytest.mark.parametrize("actions", ACTION_KINDS)
@pytest.mark.parametrize(("network", "action"), CELLS)
def test_an_exported_actor_acts_like_the_policy_for_each_network_action_space_and_action_kind(
    network: str, action: str, actions: ActionKind
) -> None:
    observation, model = NETWORKS[network]
    algorithm = PPO(model=model, normalize_observations=True)
    compared(algorithm, Spaces(observation, ACTIONS[action]), actions=actions)


@pytest.mark.parametrize("actions", ACTION_KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_exported_policies_of_every_family_act_like_the_policy(family: str, actions: ActionKind) -> None:
    algorithm, observation, action = FAMILIES[family]
    compared(algorithm, Spaces(observation, action), actions=actions)


def test_observations_seen_only_by_critics_are_not_inputs_of_an_exported_policy() -> None:
    for core in ({}, {"core": "lstm", "core_width": 6}):
        algorithm = PPO(model={**SMALL, **core, "actor_sees": ["position"]}, normalize_observations=True)
        behavior, made = acting(algorithm, spaces := Spaces(SPLIT, ACTIONS["discrete"]))
        parts = privileged_parts(SPLIT, algorithm.config.model)
        policy = recorded_policy(made, behavior, spaces, parts, to="c", actions="greedy")
        assert [name for name in policy.graph.inputs if name.startswith("obs")] == ["obs/position"]
        runner = c_runner(c_source(policy, {}).encode(), policy)
        compare(behavior, policy, runner, stream_of(SPLIT), seed=0)


@pytest.mark.parametrize("network", ["dense", "normalized layers, elu", "silu over a nested observation", "lstm"])
@pytest.mark.parametrize("action", ["discrete", "box", "tuple"])
def test_exported_c_code_acts_like_the_policy(network: str, action: str) -> None:
    observation, model = NETWORKS[network]
    algorithm, spaces = PPO(model=model, normalize_observations=True), Spaces(observation, ACTIONS[action])
    behavior, made = acting(algorithm, spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="c", actions="greedy")
    runner = c_runner(c_source(policy, {}).encode(), policy)
    compare(behavior, policy, runner, stream_of(observation), seed=0)


@pytest.mark.parametrize("family", ["crossq", "simba", "xqc", "flashsac"])
def test_exported_c_code_with_normalized_layers_acts_like_the_policy(family: str) -> None:
    algorithm, observation, action = FAMILIES[family]
    spaces = Spaces(observation, action)
    behavior, made = acting(algorithm, spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="c", actions="greedy")
    compare(behavior, policy, c_runner(c_source(policy, {}).encode(), policy), stream_of(observation), seed=0)


class Gated(nn.Module):
    """Custom encoder: features times the sigmoid of other features."""

    def __init__(self, space: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(space.shape[0], 8)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        features, gates = self.layer(observations).chunk(2, -1)
        gated: torch.Tensor = features * gates.sigmoid()
        return gated


def test_exported_c_code_with_a_sigmoid_acts_like_the_policy() -> None:
    own = {"encoders": {"": f"{__name__}:Gated"}}
    algorithm, spaces = PPO(model={**SMALL, **own}), Spaces(VECTOR, ACTIONS["box"])
    behavior, made = acting(algorithm, spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="c", actions="greedy")
    compare(behavior, policy, c_runner(c_source(policy, {}).encode(), policy), stream_of(VECTOR), seed=0)


@pytest.mark.parametrize("text", ["*/ int stranger; /*", "*\\\n/ int stranger; /*", "a\r\n*\\\r/ int stranger; /*"])
def test_metadata_cannot_break_out_of_the_comment_of_a_c_file(text: str) -> None:
    spaces = Spaces(VECTOR, ACTIONS["discrete"])
    behavior, made = acting(PPO(model={"hiddens": [2]}), spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="c", actions="greedy")
    source = c_source(policy, {"env": text})
    joined = re.sub(r"\\(\r\n|\r|\n)", "", source)  # a compiler joins these lines before it looks for comments
    assert "stranger" not in re.sub(r"/\*.*?\*/", "", joined, flags=re.DOTALL)


def test_operators_unsupported_in_c_are_refused_by_name(wording) -> None:
    spaces = Spaces(IMAGE, ACTIONS["discrete"])
    behavior, made = acting(PPO(), spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="c", actions="greedy")
    with wording.raised(Untraceable, "Conv"):
        c_source(policy, {})


def test_comparing_an_exported_file_detects_a_policy_that_changed_after_its_export(wording) -> None:
    spaces = Spaces(VECTOR, ACTIONS["box"])
    behavior, made = acting(PPO(model=SMALL), spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="onnx", actions="greedy")
    runner = onnx_runner(onnx_model(policy.graph, {}), policy.graph.outputs)
    changed = made.parameters.gather(made.module).numpy()[: made.acting_range[1]] + np.float32(1e-3)
    behavior.load(Weights(1, changed))
    with wording.raised(ExportDiffers):
        compare(behavior, policy, runner, stream_of(VECTOR), seed=0)


def test_actions_may_differ_if_the_best_two_are_tied_within_the_tolerance() -> None:
    spaces = Spaces(VECTOR, Discrete(2))
    behavior, made = acting(PPO(model=SMALL), spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="onnx", actions="greedy")
    same = np.zeros((1, 2), np.float32)

    def runner(inputs: Any) -> dict[str, Any]:
        rows = len(inputs["obs"])
        logits = np.repeat(same + np.array([[0, 1e-6]], np.float32), rows, 0)
        return {"action": np.ones(rows, np.int64), "logits": logits}

    flat = np.zeros(made.acting_range[1], np.float32)
    behavior.load(Weights(1, flat))
    found = compare(behavior, policy, runner, stream_of(VECTOR, 2), seed=0)
    assert found.ties == 2 * 2
    same[:] = [[0, -1e-5]]
    with pytest.raises(ExportDiffers, match="action is"):
        compare(behavior, policy, runner, stream_of(VECTOR, 2), seed=0)


def test_exporting_a_random_policy_is_refused(wording) -> None:
    spaces = Spaces(VECTOR, ACTIONS["discrete"])
    policy = Random().policy(spaces, 0)
    with wording.raised(Untraceable, "RandomBehavior"):
        recorded_policy(policy, policy.behavior(), spaces, PrivilegedParts(), to="onnx", actions="greedy")


def test_an_onnx_file_names_its_inputs_and_outputs_and_has_a_free_batch_size() -> None:
    spaces = Spaces(NESTED, ACTIONS["tuple"])
    behavior, made = acting(PPO(model={**SMALL, "core": "gru", "core_width": 6}), spaces)
    policy = recorded_policy(made, behavior, spaces, PrivilegedParts(), to="onnx", actions="sampled")
    model = onnx.load_from_string(onnx_model(policy.graph, {"env": "E"}))
    assert [each.version for each in model.opset_import] == [17]
    assert model.ir_version == 8
    assert {each.key: each.value for each in model.metadata_props} == {"env": "E"}
    inputs = [each.name for each in model.graph.input]
    assert inputs == ["obs/0", "obs/1/x", "obs/1/y", "state_in", "episode_start", "noise", "noise_2", "noise_3"]
    assert {"action/0", "action/1/a", "action/1/b", "outputs", "state_out"} == {
        each.name for each in model.graph.output
    }
    assert {each.type.tensor_type.shape.dim[0].dim_param for each in model.graph.input} == {"batch"}
