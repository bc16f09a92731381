"""Teams whose members have memory: sequences of the team's steps, with a recurrent state for each member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from rlrun.algorithms.multi_agent.ippo import IPPOConfig
from rlrun.algorithms.multi_agent.maddpg import MADDPGConfig
from rlrun.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from rlrun.algorithms.multi_agent.qmix import QMIX, QMIXConfig
from rlrun.algorithms.multi_agent.team import JoinTeams
from rlrun.algorithms.multi_agent.team_q import TeamQPolicy
from rlrun.algorithms.multi_agent.team_q_networks import TeamQNetworks
from rlrun.algorithms.multi_agent.vdn import VDN, VDNConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.training import Training
from rlrun.engine.worlds.world import World, WorldStep
from rlrun.engine.worlds.world_view import WorldView
from tests.results import numbers
from tests.rounding import rounding_error

AGENTS = ("a", "b")
STEPS = 3


class TeamRecall(World):
    """Both agents are paid 1 if each takes the action of its cue in the third step; cues are shown in the first step.

    The state shows both cues at all times, so a value of the state needs no memory. Without memory, an agent alone is
    right half of the time, and a team a quarter of the time.
    """

    def __init__(self) -> None:
        self.possible_agents = AGENTS
        self.state_space = Box(-1.0, 1.0, (3,))
        self._spaces = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))

    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    def reset(self, seed: int) -> Mapping[str, Any]:
        self.cues = np.random.default_rng(seed).integers(0, 2, 2)
        self.time = 0
        return self.shown()

    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        is_last = self.time == STEPS - 1
        both = all(int(actions[agent]) == cue for agent, cue in zip(AGENTS, self.cues, strict=True))
        self.time += 1
        paid = dict.fromkeys(AGENTS, float(is_last and both))
        return WorldStep(self.shown(), paid, dict.fromkeys(AGENTS, True) if is_last else {}, {}, {}, is_last)

    def shown(self) -> dict[str, Any]:
        cues = (2.0 * self.cues - 1.0) * (self.time == 0)
        return {agent: np.array([cue, self.time / STEPS], np.float32) for agent, cue in zip(AGENTS, cues, strict=True)}

    def state(self) -> Any:
        return np.array([*(2.0 * self.cues - 1.0), self.time / STEPS], np.float32)


RECALL = EnvConfig(world=f"{__name__}:TeamRecall")
TEAM: dict[str, Any] = {
    "model": {"hiddens": [16], "core": "gru", "core_width": 16},
    "replay": {"burn_in": 0, "length": 4, "stride": 1},
    "num_envs_per_worker": 8,
    "min_env_steps_per_iteration": 500,
    "learning_starts": 200,
    "minibatch_size": 32,
    "target_update_interval": 20,
    "epsilon": [[0, 1.0], [1500, 0.1]],
    "team_reward": "once",
    "optimizer": "adam",
    "gamma": 0.9,
    "lr": 1e-2,
}
ON_POLICY: dict[str, Any] = {
    "model": {"hiddens": [16], "core": "gru", "core_width": 16},
    "num_envs_per_worker": 16,
    "train_batch_size": 512,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 128,
    "num_epochs": 4,
    "seq_len": 8,
    "lr": 1e-2,
}


def greedy_return(name: str, config: dict[str, Any], env_steps: int) -> float:
    cls = algorithm_class(name)
    with Training(RECALL, cls(cls.Config.parse(config)), seed=1) as training:
        while training.step()["env_steps"] < env_steps:
            pass
        return training.evaluate(100).policies["default"].mean


@pytest.mark.parametrize(
    ("name", "config", "env_steps"),
    [("qmix", {**TEAM, "mixer_hidden": 8}, 2500), ("vdn", TEAM, 2500), ("mappo", ON_POLICY, 4000)],
)
def test_members_with_memory_recall_what_each_of_them_was_shown(
    name: str, config: dict[str, Any], env_steps: int
) -> None:
    assert greedy_return(name, config, env_steps) > 0.95


def test_members_without_memory_cannot_recall_even_with_a_mixer() -> None:
    feed_forward = {**TEAM, "model": {"hiddens": [16]}, "replay": {}, "mixer_hidden": 8}
    assert greedy_return("qmix", feed_forward, 2500) < 0.6


BURN_IN, LENGTH, N_STEP, ROWS, ACTIONS, MEMBERS, WIDTH = 2, 4, 2, 3, 3, 2, 5
SPACES = Spaces(Box(-1, 1, (2,)), Discrete(ACTIONS))
VIEW = WorldView(Box(-1, 1, (4,)), MEMBERS, "parallel")
SMALL = {
    "model": {"hiddens": [8], "core": "lstm", "core_width": WIDTH},
    "replay": {"burn_in": BURN_IN, "length": LENGTH},
    "n_step": N_STEP,
}


def sequences() -> SampleBatch:
    """Sequences: one member is born in the burn-in, one among the steps, and one is absent for two steps."""
    drawn = torch.Generator().manual_seed(0)
    span = BURN_IN + LENGTH + N_STEP
    starts = torch.zeros(ROWS, span, MEMBERS, dtype=torch.bool)
    starts[0, 1, 0] = starts[1, BURN_IN + 2, 1] = True
    present = torch.ones(ROWS, span, MEMBERS, dtype=torch.bool)
    present[1, BURN_IN : BURN_IN + 2, 1] = False
    valid = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    valid[2, 1] = False
    steps = torch.full((ROWS, LENGTH), N_STEP)
    steps[2, 0] = 1  # the team was truncated there
    discounts = 0.9 ** steps.float()
    discounts[0, LENGTH - 1] = 0.0  # this team terminated there
    return SampleBatch(
        obs={
            "agents": torch.randn(ROWS, span, MEMBERS, 2, generator=drawn) * present.unsqueeze(-1),
            "present": present,
            "state": torch.randn(ROWS, span, 4, generator=drawn),
        },
        episode_starts=starts,
        state=torch.randn(ROWS, MEMBERS * 2 * WIDTH, generator=drawn),
        actions=torch.randint(ACTIONS, (ROWS, LENGTH, MEMBERS), generator=drawn),
        rewards=torch.randn(ROWS, LENGTH, generator=drawn) * 3,
        discounts=discounts,
        steps=steps,
        valid=valid,
        weights=torch.rand(ROWS, 1, generator=drawn) + 0.5,
    )


def views_of(policy: TeamQPolicy, scale: float = 1.0) -> dict[str, Tensor]:
    return policy.parameters.views(policy.parameters.gather(policy.module) * scale)


def stepwise(policy: TeamQPolicy, views: dict[str, Tensor], batch: SampleBatch, row: int) -> Tensor:
    """Returns members' values in a row [T, K, A], one observation of one member at a time."""
    states = batch["state"][row].view(MEMBERS, 1, -1).clone()
    found = torch.zeros(*batch["obs"]["agents"].shape[1:3], ACTIONS)
    for t in range(len(found)):
        for member in range(MEMBERS):
            if batch["episode_starts"][row, t, member]:
                states[member] = 0.0
            seen = batch["obs"]["agents"][row, t, member].view(1, 1, -1)
            heads, state = policy.network(views, {"obs": seen}, states[member], torch.zeros(1, 1, dtype=torch.bool))
            found[t, member], states[member] = heads["outputs"][0, 0].detach(), state.detach()
    return found


def policy_and_outputs(algorithm: VDN, batch: SampleBatch) -> tuple[TeamQPolicy, TeamQNetworks]:
    policy = algorithm.policy_in_world(SPACES, VIEW, seed=0)
    assert isinstance(policy, TeamQPolicy)
    return policy, policy.outputs(views_of(policy), batch, views_of(policy, 0.7))


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("cls", [VDN, QMIX])
def test_the_loss_over_sequences_equals_a_loop_over_single_steps_and_members(cls: type[VDN], double: bool) -> None:
    algorithm, batch = cls(cls.Config.parse({**SMALL, "double": double})), sequences()
    policy, outputs = policy_and_outputs(algorithm, batch)
    total, count, priorities = 0.0, 0, []
    for row in range(ROWS):
        values, targets = (stepwise(policy, views_of(policy, scale), batch, row) for scale in (1.0, 0.7))
        errors = []
        for k in range(LENGTH):
            if not batch["valid"][row, k]:
                continue
            now, behind = BURN_IN + k, BURN_IN + k + int(batch["steps"][row, k])

            def at(t: int, row: int = row) -> dict[str, Tensor]:
                return {name: leaf[row : row + 1, t : t + 1] for name, leaf in batch["obs"].items()}

            best = (values if double else targets)[behind].argmax(-1).view(1, 1, -1)
            worth = outputs.target_mixed(targets[behind][None, None], at(behind), best)
            own = outputs.mixed(values[now][None, None], at(now), batch["actions"][row, k].view(1, 1, -1))
            errors.append(float(own - batch["rewards"][row, k] - batch["discounts"][row, k] * worth))
        total += float(batch["weights"][row]) * sum(error**2 for error in errors)
        count += len(errors)
        priorities.append(0.9 * np.abs(errors).max() + 0.1 * np.abs(errors).mean())
    loss = algorithm.sequence_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(total / count, rel=rounding_error(ROWS * LENGTH))
    assert loss.priorities is not None
    np.testing.assert_allclose(loss.priorities.detach(), priorities, rtol=rounding_error(ROWS * LENGTH))


def gradient_of(algorithm: VDN, batch: SampleBatch) -> Tensor:
    policy = algorithm.policy_in_world(SPACES, VIEW, seed=0)
    flat = policy.parameters.gather(policy.module).requires_grad_()
    loss: Loss = algorithm.sequence_loss(policy.outputs(policy.parameters.views(flat), batch), batch, {})
    return torch.autograd.grad(loss.total, flat)[0]


def test_invalid_cells_and_absent_members_do_not_affect_gradients() -> None:
    algorithm, batch, other = QMIX(QMIXConfig.parse(SMALL)), sequences(), sequences()
    for name, garbage in {"actions": 0, "rewards": 1e6, "discounts": -7.0, "steps": 0}.items():
        other[name][~other["valid"]] = garbage
    other["actions"][1, :2, 1] = 0
    other["obs"]["agents"][1, BURN_IN : BURN_IN + 2, 1] = 5.0  # the agent is born after these rows and starts afresh
    torch.testing.assert_close(gradient_of(algorithm, other), gradient_of(algorithm, batch), rtol=0, atol=0)
    other["rewards"][0, 0] += 1.0
    assert not torch.equal(gradient_of(algorithm, other), gradient_of(algorithm, batch))


POLES = EnvConfig(world="rlrun.toys:CartPoles", kwargs={"num_agents": 2, "reborn": True})


@pytest.mark.parametrize("core", [{"core": "lstm"}, {"core": "gtrxl", "gtrxl": {"heads": 1, "memory_len": 6}}])
def test_learner_and_worker_memories_agree_even_when_members_die_and_are_born(
    core: dict[str, Any],
) -> None:
    model = {**SMALL["model"], **core}
    config = VDNConfig.parse({**SMALL, "model": model, "num_envs_per_worker": 3, "rollout_fragment_length": 120})
    with Training(POLES, VDN(config), seed=2) as training:
        training.step()
        training.running.workers.started.request(0)
        (rollout,) = training.running.workers.started.arrived()
        trainee = training.running.trainee
        _, team = JoinTeams(trainee, "sum")((0, rollout.batches["default"]))
        policy = trainee.policy
        views = policy.parameters.views(torch.from_numpy(trainee.learner.flat()))
    length, worlds, members = team["episode_starts"].shape
    assert team["episode_starts"].sum() > 10  # agents are born, some of them while the other pole stands
    assert (team["episode_starts"].sum(-1) == 1).any()
    state = team["state"].reshape(length, worlds, members, -1)
    assert not state[team["episode_starts"]].any()
    rows = SampleBatch(
        obs={"agents": torch.from_numpy(np.moveaxis(team["obs"]["agents"][:-1], 0, 1).copy())},
        episode_starts=torch.from_numpy(np.moveaxis(team["episode_starts"], 0, 1).copy()),
        state=torch.from_numpy(team["state"][0]),
    )
    with torch.no_grad():
        values, _ = policy.outputs(views, rows).unrolled(rows, 0)
        seen = torch.from_numpy(team["obs"]["agents"][:-1]).reshape(length * worlds * members, 1, -1)
        alone, _ = policy.network(
            views,
            {"obs": seen},
            torch.from_numpy(state).reshape(length * worlds * members, -1),
            torch.zeros(length * worlds * members, 1, dtype=torch.bool),
        )
    expected = alone["outputs"].view(length, worlds, members, -1).transpose(0, 1)
    present = np.moveaxis(team["obs"]["present"][:-1], 0, 1)
    assert not present.all()
    np.testing.assert_allclose(values[present], expected[present], atol=rounding_error(4 + 8 + 2 * 6 * WIDTH))


RESUMED: dict[str, dict[str, Any]] = {
    "qmix": {
        **TEAM,
        "replay": {"burn_in": 2, "length": 3, "stride": 2, "sampling": "prioritized", "capacity": 400},
        "n_step": 2,
        "num_envs_per_worker": 3,
        "learning_starts": 60,
        "min_env_steps_per_iteration": 50,
        "minibatch_size": 8,
    },
    "mappo": {**ON_POLICY, "num_envs_per_worker": 3, "train_batch_size": 50, "minibatch_size": 40},
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_restored_run_of_a_team_with_memory_continues_bit_for_bit(name: str) -> None:
    cls = algorithm_class(name)
    algorithm = cls(cls.Config.parse(RESUMED[name]))
    with Training(RECALL, algorithm, seed=3) as whole:
        for _ in range(3):
            whole.step()
        content = whole.content({})
        expected = [numbers(whole.step()) for _ in range(2)]
        stored = whole.running.trainee.learner.flat()
    with Training(RECALL, algorithm, seed=3) as resumed:
        resumed.load(content)
        assert [numbers(resumed.step()) for _ in range(2)] == expected
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), stored)


@pytest.mark.parametrize("clock", ["parallel", "per_agent"])
def test_recurrent_mappo_recomputes_recorded_log_probs_under_either_world_clock(clock: str) -> None:
    # Once learning has stopped, workers act with the same weights as the learner's.
    config = {
        **ON_POLICY,
        "num_envs_per_worker": 3,
        "train_batch_size": 160,
        "lr": [[0, 1e-2], [500, 1e-2], [501, 0.0]],
    }
    with Training(RECALL.replace(clock=clock), MAPPO(MAPPOConfig.parse(config)), seed=1) as training:
        while training.step()["env_steps"] <= 500:
            pass
        result = training.step()
        assert result["policies/default/learner/kl"] == pytest.approx(0.0, abs=1e-7)
        assert result["policies/default/learner/entropy"] < 0.68  # two equally likely actions have 0.69
        assert np.isfinite(result["policies/default/learner/value_loss"])
        assert training.running.trainee.policy.value_network.module.spec.core is None


def test_algorithms_without_memory_refuse_a_recurrent_core_and_suggest_an_alternative(wording) -> None:
    with wording.raised(SpecError):
        MADDPGConfig.parse({"model": {"core": "gru"}})
    with wording.raised(SpecError, "core"):
        IPPOConfig.parse({"model": {"core": "gru"}})
    with wording.raised(SpecError):
        MAPPOConfig.parse({"centralised_value": False, "model": {"core": "gru"}})


@pytest.mark.usefixtures("traced_updates")
def test_compiled_updates_of_a_team_with_memory_match_eager_ones() -> None:
    short = {
        **TEAM,
        "model": {"hiddens": [4], "core": "gru", "core_width": 4},
        "replay": {"burn_in": 1, "length": 2, "stride": 1},
        "learning_starts": 40,
        "minibatch_size": 4,
        "min_env_steps_per_iteration": 60,
        "target_update_interval": 2,
        "mixer_hidden": 4,
    }
    flats = []
    for is_compiled in (False, True):
        with Training(RECALL, QMIX(QMIXConfig.parse({**short, "compile": is_compiled})), seed=2) as training:
            training.step()
            assert training.update_executor == ("compiled" if is_compiled else "eager")
            flats.append(training.running.trainee.learner.flat())
    np.testing.assert_allclose(flats[1], flats[0], atol=rounding_error(32))
