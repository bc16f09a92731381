"""Actor-critics with a core: acting step by step and learning from rows give the same results, including values."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from rlrun.engine.data.learning_rows import sequence_rows, whole_fragment_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.moments import Moments
from rlrun.engine.learner.executors.numpy_update import in_numpy
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.weights import Weights
from tests.policies import plain_policy
from tests.rounding import rounding_error

LENGTH, SLOTS = 40, 3
NUMBERS = Box(-9, 9, (3,))
FILTERS = {"observations/": Moments.of(np.random.default_rng(0).normal(1, 3, (1000, 3)), 1)}
CORES = [("lstm", True), ("lstm", False), ("gru", True), ("gru", False), ("gtrxl", True), ("gtrxl", False)]
STATE_SIZES = {"lstm": 12, "gru": 6, "gtrxl": 2 * 5 * 6 + 1}
# Counts the inputs of the first layer and of the core, and six products over the core's width in each of two layers.
NEAR = rounding_error(3 + 8 + 2 * 6 * 6)
every_core = pytest.mark.parametrize(("core", "shared"), CORES)


def policy_of(
    core: str, shared: bool, actions: Space[Any] | None = None, space: Space[Any] = NUMBERS, **model: Any
) -> ActorCriticPolicy:
    gtrxl = {"layers": 2, "heads": 3, "memory_len": 5}
    settings = ModelConfig(hiddens=(8,), core_width=6, shared_value=shared).replace(core=core, gtrxl=gtrxl, **model)
    policy = plain_policy(
        ActorCriticPolicy, space, actions or Discrete(4), settings, normalize_observations=True, seed=5
    )
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)) / 2)
    return policy


def flat_of(policy: ActorCriticPolicy) -> np.ndarray:
    return policy.parameters.gather(policy.module).numpy()


def acting(policy: ActorCriticPolicy) -> BehaviorPolicy:
    behavior: BehaviorPolicy = pickle.loads(pickle.dumps(policy.behavior()))
    behavior.load(Weights(0, flat_of(policy), FILTERS))
    return behavior


def world(length: int = LENGTH, seed: int = 0) -> SampleBatch:
    """An env's output: each end is followed by the final observation, and then by a new episode."""
    rng = np.random.default_rng(seed)
    ends = np.zeros((length, SLOTS), np.bool_)
    starts, valid = ends.copy(), ~ends
    starts[0] = True
    for slot in range(SLOTS):
        t = int(rng.integers(1, 6))
        while t < length:
            ends[t, slot] = True
            valid[t + 1 : t + 2, slot] = False
            starts[t + 2 : t + 3, slot] = True
            t += 2 + int(rng.integers(1, 12))
    obs = rng.normal(1, 3, (length + 1, SLOTS, 3)).astype(np.float32)
    return SampleBatch(obs=obs, truncateds=ends, terminateds=ends & ~ends, valid=valid, starts=starts)


def acted_over(behavior: BehaviorPolicy, seen: SampleBatch) -> SampleBatch:
    """Acts over a fragment; returns the network's outputs at each step along with the fragment."""
    length, slots = seen["valid"].shape
    noise = behavior.noise_source.noise(np.random.default_rng(1), length, slots)
    batch = behavior.collector.allocate(length, slots)
    for t in range(length):
        behavior.act(map_tree(lambda leaf, t=t: leaf[t], seen["obs"]), noise[t], batch, t, seen["starts"][t])
    outputs = batch["outputs"]
    batch.update({name: column for name, column in seen.items() if name != "starts"})
    behavior.collector.postprocess(batch)
    return SampleBatch(batch, network_outputs=outputs)


def outputs_over(policy: ActorCriticPolicy, rows: SampleBatch) -> tuple[SampleBatch, Any]:
    columns = rows.map(torch.from_numpy)
    views = policy.parameters.views(torch.from_numpy(flat_of(policy)))
    with torch.no_grad():
        return columns, policy.outputs(views, columns)


def in_a_graph(policy: ActorCriticPolicy, rows: SampleBatch, executor: str) -> tuple[Tensor, Tensor]:
    """Returns outputs and values from the graph that is otherwise compiled, or from its NumPy calls."""
    columns, names = rows.map(torch.from_numpy), ("obs", "state", "episode_starts")

    def function(flat: Tensor, *tensors: Tensor) -> list[Tensor]:
        found = policy.outputs(policy.parameters.views(flat), SampleBatch(zip(names, tensors, strict=True)))
        return [found.distribution.outputs, found.values]

    arguments = [torch.from_numpy(flat_of(policy)), *(columns[name] for name in names)]
    with torch.no_grad():
        if executor == "numpy":
            outputs, values = in_numpy(function, arguments)(arguments)
        else:
            graph = make_fx(function)(*arguments)
            outputs, values = graph(*arguments)
    return outputs, values


def assert_the_learner_agrees(policy: ActorCriticPolicy, batch: SampleBatch, length: int) -> None:
    rows, found = outputs_over(policy, sequence_rows(batch.steps(), length))
    where = rows["valid"]
    assert where.sum() == batch["valid"].sum()
    assert rows["episode_starts"][:, 1:].any()
    near = {"atol": NEAR, "rtol": NEAR}
    torch.testing.assert_close(found.distribution.outputs[where], rows["network_outputs"][where], **near)
    torch.testing.assert_close(found.distribution.log_prob(rows["actions"])[where], rows["logp"][where], **near)
    torch.testing.assert_close(found.values[where], rows["values"][where], **near)


@every_core
@pytest.mark.parametrize("length", [7, 8, 64])
def test_evaluating_rows_of_steps_equals_acting_step_by_step(core: str, shared: bool, length: int) -> None:
    policy = policy_of(core, shared)
    behavior = acting(policy)
    for seed in range(2):  # the second fragment starts in the middle of episodes
        seen = world(seed=seed)
        if seed:
            seen["starts"][0] = False
        batch = acted_over(behavior, seen)
        assert batch["state"].shape[2] == STATE_SIZES[core] * (1 if shared else 2)
        assert batch["state"][0].any() == bool(seed)
        assert_the_learner_agrees(policy, batch, length)


@pytest.mark.parametrize(
    ("core", "executor"),
    [("lstm", "compiled"), ("gru", "compiled"), ("gtrxl", "compiled"), ("lstm", "numpy"), ("gru", "numpy")],
)
def test_compiled_and_numpy_graphs_of_rows_equal_acting_step_by_step(core: str, executor: str) -> None:
    policy = policy_of(core, shared=False)
    batch = acted_over(acting(policy), world())
    rows = sequence_rows(batch.steps(), 4)
    assert rows["episode_starts"][:, 1:].any()
    outputs, values = in_a_graph(policy, rows, executor)
    where = rows["valid"]
    np.testing.assert_allclose(outputs.numpy()[where], rows["network_outputs"][where], rtol=NEAR, atol=NEAR)
    np.testing.assert_allclose(values.numpy()[where], rows["values"][where], rtol=NEAR, atol=NEAR)


@every_core
def test_evaluating_whole_fragments_equals_acting_step_by_step_including_final_values(core: str, shared: bool) -> None:
    policy = policy_of(core, shared)
    behavior = acting(policy)
    for seed in range(2):
        seen = world(7, seed=seed)
        if seed:
            seen["starts"][0] = False
        batch = acted_over(behavior, seen)
        rows, found = outputs_over(policy, whole_fragment_rows(batch))
        where = rows["valid"]
        near = {"atol": NEAR, "rtol": NEAR}
        torch.testing.assert_close(found.distribution.outputs[where], rows["network_outputs"][where], **near)
        behind = np.zeros((8, SLOTS), np.bool_)
        behind[1:] = batch["valid"]  # the observation after a step also has a value
        where = torch.from_numpy(behind.T.copy())
        torch.testing.assert_close(found.values[where], torch.from_numpy(batch["values"].T.copy())[where], **near)


def test_a_whole_fragment_row_starts_at_its_first_valid_step_with_the_state_before_it() -> None:
    """Row 0 holds the final observation of an earlier episode, and in slot 1 nothing at all."""
    policy = policy_of("gru", True)
    batch = acted_over(acting(policy), world(6))
    batch["valid"][:] = True
    batch["valid"][0, :2] = batch["valid"][1, 1] = False
    batch["truncateds"][:] = batch["episode_starts"][:] = False
    rows = whole_fragment_rows(batch)
    for slot, first in ((0, 1), (1, 2), (2, 0)):
        np.testing.assert_array_equal(rows["state"][slot], batch["state"][first, slot])
        np.testing.assert_array_equal(rows["obs"][slot, : 7 - first], batch["obs"][first:, slot])
        assert rows["valid"][slot].tolist() == [True] * (6 - first) + [False] * (first + 1)


def test_a_transformer_sees_only_the_latest_steps_of_its_own_episode() -> None:
    """Two layers that each look back 5 steps reach back 10 steps, within a row and through the remembered state."""
    policy = policy_of("gtrxl", True)
    rng = np.random.default_rng(3)
    observations = rng.normal(size=(1, 16, 3)).astype(np.float32)

    def values(changed: int, starts: list[int], cut: int) -> np.ndarray:
        seen = torch.from_numpy(observations.copy())
        if changed >= 0:
            seen[0, changed] += 1.0
        begins = torch.zeros(1, 16, dtype=torch.bool)
        begins[0, starts] = True
        state, parts = torch.zeros(1, STATE_SIZES["gtrxl"]), []
        with torch.no_grad():
            for part in (slice(0, cut), slice(cut, 16)):
                heads, state = policy.network(None, {"obs": seen[:, part]}, state, begins[:, part])
                parts.append(heads["value"][0, :, 0])
        found: np.ndarray = torch.cat(parts).numpy()
        return found

    for cut in (8, 15):
        for starts, reached in (([0], list(range(3, 14))), ([0, 6], [3, 4, 5])):
            moved = np.abs(values(3, starts, cut) - values(-1, starts, cut)) > 1e-6
            assert np.flatnonzero(moved).tolist() == reached


def test_the_width_of_a_transformer_must_be_divisible_by_its_heads(wording) -> None:
    with wording.raised(SpecError, "gtrxl.heads", "core_width"):
        ModelConfig.parse({"core": "gtrxl", "core_width": 6})


def test_state_dependent_noise_is_refused_for_transformers(wording) -> None:
    with wording.raised(UsageError):
        policy_of("gtrxl", True, Box(-1, 1, (2,)), use_sde=True)


@pytest.mark.parametrize(("core", "shared"), CORES[:4])
def test_state_dependent_noise_is_a_function_of_the_cores_output(core: str, shared: bool) -> None:
    policy = policy_of(core, shared, Box(-1, 1, (2,)), use_sde=True, log_std_init=-1.0)
    assert_the_learner_agrees(policy, acted_over(acting(policy), world()), 8)


def test_recurrent_image_policies_act_in_torch_and_record_the_learners_values() -> None:
    space = Dict({"image": Box(0, 255, (36, 36, 1), np.uint8), "speed": NUMBERS})
    policy = policy_of("gru", False, space=space, hiddens=())
    seen = world(6)
    images = np.random.default_rng(2).integers(0, 256, (7, SLOTS, 36, 36, 1), np.uint8)
    seen["obs"] = {"image": images, "speed": seen["obs"]}
    behavior = policy.behavior()
    behavior.load(Weights(0, flat_of(policy) / 8))
    batch = acted_over(behavior, seen)
    views = policy.parameters.views(torch.from_numpy(flat_of(policy) / 8))
    rows = sequence_rows(batch.steps(), 3).map(torch.from_numpy)
    with torch.no_grad():
        found = policy.outputs(views, rows)
    torch.testing.assert_close(
        found.values[rows["valid"]],
        rows["values"][rows["valid"]],
        atol=rounding_error(64 + 512 + 576 + 64 + 515 + 6, size=float(rows["values"].abs().max())),
        rtol=0,
    )
    assert np.isfinite(batch["values"]).all()


def value_behind(policy: ActorCriticPolicy, observations: np.ndarray, state: np.ndarray | None = None) -> float:
    """The value of the last observation in [L, D] of one episode, which starts with the first one or from a state."""
    size = policy.network.module.spec.state_size
    first = torch.zeros(1, size) if state is None else torch.from_numpy(state)[None]
    with torch.no_grad():
        rows = torch.from_numpy(observations)[None]
        heads, _ = policy.network(None, {"obs": rows}, first, torch.zeros(1, len(observations), dtype=torch.bool))
    return float(heads["value"][0, -1, 0])


@every_core
def test_a_final_observation_gets_its_episodes_state_and_the_next_episode_a_zero_state(core: str, shared: bool) -> None:
    """Slot 0: steps 0 to 3, truncated there, the final observation in row 4, and a new episode from row 5 on."""
    policy, seen = policy_of(core, shared), world(9)
    for name in ("truncateds", "starts"):
        seen[name][:] = False
    seen["valid"][:] = True
    seen["starts"][0] = seen["starts"][5, 0] = seen["truncateds"][3, 0] = True
    seen["valid"][4, 0] = False
    batch = acted_over(acting(policy), seen)
    obs, values = batch["obs"][:, 0], batch["values"][:, 0]
    assert values[4] == pytest.approx(value_behind(policy, obs[:5]), abs=NEAR)
    assert values[4] != pytest.approx(value_behind(policy, obs[4:5]), abs=1e-3)
    assert values[5] == pytest.approx(value_behind(policy, obs[5:6]), abs=NEAR)
    assert not batch["state"][5, 0].any()
    assert values[8] == pytest.approx(value_behind(policy, obs[5:9]), abs=NEAR)


@every_core
@pytest.mark.parametrize("cut_off", [False, True], ids=["goes on", "cut off at the last step"])
def test_the_closing_value_uses_the_state_after_the_last_step_without_changing_it(
    core: str, shared: bool, cut_off: bool
) -> None:
    policy, seen = policy_of(core, shared), world(5)
    for name in ("truncateds", "starts"):
        seen[name][:] = False
    seen["valid"][:] = True
    seen["starts"][0], seen["truncateds"][4] = True, cut_off
    behavior = acting(policy)
    batch = acted_over(behavior, seen)
    state = behavior.state()["recurrent_state"]
    for slot in range(SLOTS):
        expected = value_behind(policy, batch["obs"][:, slot])
        assert batch["values"][5, slot] == pytest.approx(expected, abs=NEAR)
    behind = acted_over(behavior, SampleBatch(seen, starts=np.zeros_like(seen["starts"])))
    np.testing.assert_array_equal(behind["state"][0], state)
    alone = value_behind(policy, behind["obs"][:1, 0], state[0])
    assert behind["values"][0, 0] == pytest.approx(alone, abs=NEAR)


def test_separate_towers_for_policy_and_value_have_separate_states() -> None:
    policy = policy_of("lstm", False)
    observations, starts = torch.randn(2, 1, 3), torch.zeros(2, 1, dtype=torch.bool)

    def heads(state: Tensor) -> tuple[Tensor, Tensor]:
        found, _ = policy.network(None, {"obs": observations}, state, starts)
        return found["outputs"], found["value"]

    zeros = torch.zeros(2, 24)
    of_policy, of_value = zeros.clone(), zeros.clone()
    of_policy[:, :12], of_value[:, 12:] = 1.0, 1.0
    (outputs, value), (moved, same_value), (same, moved_value) = heads(zeros), heads(of_policy), heads(of_value)
    assert torch.equal(same_value, value)
    assert torch.equal(same, outputs)
    assert not torch.allclose(moved, outputs)
    assert not torch.allclose(moved_value, value)


def test_every_lstm_starts_with_a_forget_bias_of_1_with_or_without_orthogonal_weights() -> None:
    for orthogonal in (False, True):
        settings = ModelConfig(hiddens=(8,), core="lstm", core_width=4, orthogonal_init=orthogonal)
        policy = plain_policy(ActorCriticPolicy, NUMBERS, Discrete(2), settings, seed=5)
        for layer in ("policy_lstm_inputs", "value_lstm_inputs"):
            assert policy.module.get_submodule(layer).bias[4:8].tolist() == [1.0] * 4


def test_outside_training_the_recurrent_state_is_kept_until_an_episode_start_is_announced() -> None:
    policy = policy_of("lstm", False)
    batch, behavior = acted_over(acting(policy), world()), acting(policy)
    raw = world()
    for t in range(LENGTH):
        behavior.begin_episodes(raw["starts"][t])
        outputs = behavior.outputs(raw["obs"][t])
        np.testing.assert_allclose(outputs, batch["network_outputs"][t], atol=NEAR)
