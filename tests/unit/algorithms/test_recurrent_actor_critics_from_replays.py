"""SAC, TD3 and DDPG with a recurrent network: a task that needs memory, sequences, bit-exact resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from torch import Tensor

import rlrun
from rlrun import Training
from rlrun.algorithms.actor_q.networks import action_masks
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.nn.model_config import SoftModelConfig
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from tests.policies import policy_from
from tests.rounding import rounding_error

CUE = {"id": "rlrun.toys:CueRecall", "kwargs": {"delay": 3}}
SEQUENCES = {"length": 6, "burn_in": 5, "stride": 3, "capacity": 20_000}
ROWS, BURN_IN, LENGTH, AHEAD = 4, 3, 5, 2
NEAR = rounding_error(5 + 7 + 6 * 6)  # inputs of the layers, and six products over the width of the core


def sac(core: str | None) -> Training:
    settings = {
        "num_envs_per_worker": 4,
        "learning_starts": 200,
        "model": {"core": core, "core_width": 16, "hiddens": [16]} if core else {"hiddens": [16]},
        "minibatch_size": 32,
        "training_intensity": 0.125,
        "replay": SEQUENCES,
        "lr": 3e-3,
        "critic_lr": 3e-3,
        "alpha_lr": 3e-3,
        "tau": 0.02,
        "target_entropy": 0.1,
        "initial_alpha": 0.2,
        "compile": False,
    }
    return rlrun.Training(CUE, rlrun.SAC(**settings), seed=100)


@pytest.mark.parametrize(("core", "low", "high"), [("gru", 0.95, 1.0), ("lstm", 0.95, 1.0), (None, 0.3, 0.7)])
def test_only_policies_with_memory_recall_a_cue(core: str | None, low: float, high: float) -> None:
    with sac(core) as training:
        while training.step()["env_steps"] < (1000 if core is None else 3000):
            if core is not None and training.evaluate(50).mean == 1.0:
                break
        assert low <= training.evaluate(200).mean <= high


SMALL = {
    "learning_starts": 60,
    "model": {"core": "gru", "core_width": 4, "hiddens": [4]},
    "minibatch_size": 2,
    "training_intensity": 0.1,
    "min_env_steps_per_iteration": 100,
    "replay": {"length": 3, "burn_in": 2, "stride": 2, "capacity": 1000},
    "compile": False,
}


@pytest.mark.parametrize("cls", [rlrun.SAC, rlrun.TD3, rlrun.DDPG])
@pytest.mark.parametrize("extra", [{}, {"replay": {**SMALL["replay"], "sampling": "prioritized"}, "n_step": 2}])
def test_a_resumed_run_matches_an_uninterrupted_run_bit_for_bit(
    cls: type[Algorithm[Any]], extra: dict[str, Any], tmp_path: Path
) -> None:
    env = {"id": "Pendulum-v1", "max_episode_steps": 30}
    with Training(env, cls(**{**SMALL, **extra, "normalize_observations": True}), seed=3) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        start = one.running.trainee.learner.flat()
        expected = one.step()["episode_return_mean"]
        weights = one.running.trainee.learner.flat()
    assert (weights != start).mean() > 0.9
    with Training.restore(checkpoint) as other:
        assert other.step()["episode_return_mean"] == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)


@pytest.mark.usefixtures("traced_updates")
def test_the_traced_graph_matches_the_eager_update() -> None:
    flats, short = [], {"length": 2, "burn_in": 1, "stride": 1, "capacity": 1000}
    for is_compiled in (False, True):
        with rlrun.Training(
            "Pendulum-v1", rlrun.SAC(**{**SMALL, "replay": short, "compile": is_compiled}), seed=2
        ) as training:
            training.step()
            flats.append(training.running.trainee.learner.flat())
    np.testing.assert_allclose(flats[1], flats[0], atol=rounding_error(32))


def policy_of(core: str, actions: Space[Any], space: Space[Any]) -> SoftPolicy:
    gtrxl = {"heads": 2, "memory_len": 3}
    model = SoftModelConfig.parse({"core": core, "core_width": 6, "hiddens": [7], "activation": "relu", "gtrxl": gtrxl})
    return policy_from(
        SoftPolicy,
        SACConfig,
        space,
        actions,
        model,
        seed=5,
        learning_starts=0,
        initial_alpha=1.0,
        replay=SequenceReplayConfig(burn_in=BURN_IN),
    )


def batch_of_sequences(policy: SoftPolicy, actions: Tensor, obs: Any) -> SampleBatch:
    generator = torch.Generator().manual_seed(1)
    starts = torch.zeros(ROWS, BURN_IN + LENGTH + AHEAD, dtype=torch.bool)
    starts[1, 1] = starts[2, BURN_IN + 2] = starts[3, BURN_IN + LENGTH] = True
    return SampleBatch(
        obs=obs,
        episode_starts=starts,
        state=torch.randn(ROWS, policy.actor_spec.state_size, generator=generator),
        steps=torch.tensor([[2, 2, 2, 2, 2], [1, 2, 1, 2, 1], [2, 1, 1, 1, 2], [0, 0, 1, 2, 2]]),
        actions=actions,
        valid=torch.ones(ROWS, LENGTH, dtype=torch.bool),
    )


def one_by_one(
    module: Any, obs: Tensor, starts: Tensor, state: Tensor, actions: dict[int, Tensor]
) -> dict[int, Tensor]:
    """A network's outputs for the rows of one sequence by row number, computed one row at a time."""
    found = {}
    for t in range(len(obs)):
        row = {"obs": obs[None, t : t + 1]}
        if module.spec.vectors:
            row["actions"] = actions.get(t, torch.zeros(2))[None, None]
        heads, state = module(row, state, starts[None, t : t + 1])
        found[t] = heads["outputs"][0, 0]
    return found


@pytest.mark.parametrize("core", ["lstm", "gru", "gtrxl"])
def test_for_each_step_networks_see_exactly_the_observations_so_far_in_its_episode(core: str) -> None:
    """The observations after transitions are `steps` rows later, and several steps may share one."""
    policy = policy_of(core, Box(-1, 1, (2,)), Box(-9, 9, (3,)))
    generator = torch.Generator().manual_seed(2)
    obs = torch.randn(ROWS, BURN_IN + LENGTH + AHEAD, 3, generator=generator)
    actions, others = (torch.rand(ROWS, LENGTH, 2, generator=generator) * 2 - 1 for _ in range(2))
    batch = batch_of_sequences(policy, actions, obs)
    views = dict(policy.module.named_parameters())
    networks = policy.outputs(views, batch).networks
    with torch.no_grad():
        actor, following = networks.actor_outputs(networks.present(batch)), networks.following(batch)
        values, ahead = networks.critic_outputs(networks.present(batch), actions), networks.actor_outputs(following)
        behind = networks.target_critic_outputs(following, others)
        for row in range(ROWS):
            seen, starts, state = obs[row], batch["episode_starts"][row], batch["state"][row : row + 1]
            alone = one_by_one(policy.module.actor, seen, starts, state, {})
            fresh = torch.zeros(1, policy.module.critics[0].spec.state_size)
            for t in range(LENGTH):
                present, later = BURN_IN + t, BURN_IN + t + int(batch["steps"][row, t])
                torch.testing.assert_close(actor[row, t], alone[present], rtol=0, atol=NEAR)
                torch.testing.assert_close(ahead[row, t], alone[later], rtol=0, atol=NEAR)
                for critic, own, next_own in zip(policy.module.critics, values, behind, strict=True):
                    assert isinstance(critic, NetworkModule)
                    taken = one_by_one(critic, seen, starts, fresh, {present: actions[row, t]})[present]
                    torch.testing.assert_close(own[row, t], taken, rtol=0, atol=NEAR)
                    other = one_by_one(critic, seen, starts, fresh, {later: others[row, t]})[later]
                    torch.testing.assert_close(next_own[row, t], other, rtol=0, atol=NEAR)


def test_gradients_do_not_reach_the_burn_in() -> None:
    policy = policy_of("gru", Box(-1, 1, (2,)), Box(-9, 9, (3,)))
    obs = torch.randn(ROWS, BURN_IN + LENGTH + AHEAD, 3, generator=torch.Generator().manual_seed(2), requires_grad=True)
    batch = batch_of_sequences(policy, torch.zeros(ROWS, LENGTH, 2), obs)
    networks = policy.outputs(dict(policy.module.named_parameters()), batch).networks
    last = networks.critic_outputs(networks.present(batch), batch["actions"])[:, 0, -1].sum()
    (gradient,) = torch.autograd.grad(last, obs)
    assert not gradient[:, :BURN_IN].any()
    assert not gradient[1:].any()
    assert gradient[0, BURN_IN : BURN_IN + LENGTH].abs().amax(-1).min() > 0


def test_action_masks_are_those_of_the_present_and_following_steps_being_evaluated() -> None:
    policy = policy_of("gru", Discrete(4), masked_space())
    shape = (ROWS, BURN_IN + LENGTH + AHEAD)
    masks = torch.randint(0, 2, (*shape, 4), generator=torch.Generator().manual_seed(3)).to(torch.int8)
    masks[..., 0] = 1
    obs = {"numbers": torch.randn(*shape, 3, generator=torch.Generator().manual_seed(4)), ACTION_MASK: masks}
    batch = batch_of_sequences(policy, torch.zeros(ROWS, LENGTH, dtype=torch.long), obs)
    outputs = policy.outputs(dict(policy.module.named_parameters()), batch)
    assert torch.equal(action_masks(outputs.networks.present(batch))[ACTION_MASK], masks[:, BURN_IN : BURN_IN + LENGTH])
    probabilities = outputs.networks.actor_outputs(outputs.networks.following(batch)).softmax(-1)
    for row in range(ROWS):
        for t in range(LENGTH):
            later = BURN_IN + t + int(batch["steps"][row, t])
            assert torch.equal(probabilities[row, t] > 1e-6, masks[row, later] == 1)
    entropy = float(outputs.target_entropy(batch))
    allowed = masks[:, BURN_IN : BURN_IN + LENGTH].sum(-1)
    assert entropy == pytest.approx(0.98 * float(allowed.log().mean()), abs=rounding_error(ROWS * LENGTH))


def masked_space() -> Space[Any]:
    return Dict({"numbers": Box(-9, 9, (3,)), ACTION_MASK: Box(0, 1, (4,), np.int8)})


def test_apex_ddpg_refuses_a_recurrent_core(wording) -> None:
    with wording.raised(SpecError):
        rlrun.Training("Pendulum-v1", rlrun.ApexDDPG(model={"core": "gru"}))
