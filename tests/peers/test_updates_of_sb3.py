"""Ten updates of an imported policy give the same parameters as Stable-Baselines3 with the same minibatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlrun.bridges.sb3_import import import_sb3
from rlrun.bridges.translation.sb3_networks import sb3_policy
from rlrun.bridges.translation.sb3_zip import read_sb3_zip
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import standardized
from rlrun.engine.training.training import Training

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]  # we cannot fix these packages' warnings

UPDATES, ROWS = 10, 64
MOST = 1e-5
"""Largest difference of a parameter after the last update."""

NETWORKS = {"net_arch": [32, 32]}
PPO = {"n_steps": 320, "n_epochs": 2, "ent_coef": 0.01, "normalize_advantage": False}
A2C = {"n_steps": 64, "ent_coef": 0.01, "use_rms_prop": False}
REPLAYED = {"buffer_size": 1_000, "learning_starts": 320, "batch_size": ROWS}

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """An algorithm of both libraries, with settings that make their updates equal.

    Attributes:
        sb3: Class of Stable-Baselines3 or sb3-contrib, as `module:name`.
        env: Id of the env.
        theirs: Arguments of the class.
        policy: Its `policy_kwargs` besides the widths of layers.
    """

    sb3: str
    env: str
    theirs: Mapping[str, Any]
    policy: Mapping[str, Any] = field(default_factory=dict)


ON_POLICY = {
    "ppo": Case("stable_baselines3:PPO", "CartPole-v1", PPO),
    "ppo_box": Case("stable_baselines3:PPO", "Hopper-v5", PPO),
    "a2c": Case("stable_baselines3:A2C", "CartPole-v1", A2C),
    "a2c_box": Case("stable_baselines3:A2C", "Hopper-v5", A2C),
}
CHOICES = {**REPLAYED, "target_update_interval": 16}  # 16 env steps are 4 minibatches
ADAM = {"optimizer_kwargs": {"eps": 1e-5}}
QUANTILES = 5
REPLAY = {
    "dqn": Case("stable_baselines3:DQN", "CartPole-v1", CHOICES),
    "qrdqn": Case("sb3_contrib:QRDQN", "CartPole-v1", CHOICES, {"n_quantiles": QUANTILES}),
    "sac": Case("stable_baselines3:SAC", "Hopper-v5", REPLAYED, ADAM),
    "td3": Case("stable_baselines3:TD3", "Hopper-v5", REPLAYED, ADAM),
    "tqc": Case("sb3_contrib:TQC", "Hopper-v5", REPLAYED, {**ADAM, "n_quantiles": QUANTILES}),
}


def model_of(case: Case) -> Any:
    """Model of Stable-Baselines3 with a small network."""
    module, name = case.sb3.split(":")
    kwargs = {**NETWORKS, **case.policy}
    algorithm = getattr(import_module(module), name)  # installed only for these tests
    return algorithm("MlpPolicy", case.env, policy_kwargs=kwargs, seed=0, device="cpu", **case.theirs)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(own_folder: Path) -> None:
    """Runs are written to a temporary folder."""


def imported(model: Any, case: Case) -> Training:
    """The model as the training that `rlrun resume` would continue."""
    model.save("before.zip")
    run = import_sb3(Path("before.zip"), case.env, runs_dir=Path("runs"))
    (checkpoint,) = run.directory.glob("*/checkpoints/*")
    return Training.restore(checkpoint, trust=True)


def only_trainee(training: Training) -> Trainee:
    (branch,) = training.running.branches.values()
    return branch.trainee


def differences(model: Any, trainee: Trainee) -> dict[str, float]:
    """Largest difference of each parameter, including those of the target network."""
    model.save("after.zip")
    theirs, named = sb3_policy(read_sb3_zip(Path("after.zip"))), trainee.policy.parameters.named
    own = named(trainee.learner.flat())
    pairs = {"online": (theirs.online, own)}
    if theirs.target:
        pairs["target"] = (theirs.target, named(trainee.learner.target()))
    found = {
        f"{kind} {name}": float(np.abs(part.array - ours[name]).max())
        for kind, (parts, ours) in pairs.items()
        for name, part in parts.items()
    }
    if "log_alpha" in own:
        found["log_alpha"] = abs(model.log_ent_coef.item() - own["log_alpha"].item())
    return found


def rows(**columns: Any) -> SampleBatch:
    """A minibatch of single steps, [S, 1, ...]."""
    arrays = {name: np.asarray(column)[:, None] for name, column in columns.items()}
    return SampleBatch(arrays, valid=np.ones((len(arrays["obs"]), 1), np.bool_))


def step(trainee: Trainee, batch: SampleBatch, objectives: Sequence[str] | None = None) -> None:
    trainee.learner.step(batch, scheduled=trainee.clock.scheduled(), objectives=objectives)


def actions_of(data: Any, model: Any) -> NDArray[Any]:
    return data.actions.numpy() if model.action_space.shape else data.actions.numpy().flatten().astype(np.int64)


@pytest.mark.parametrize("name", ON_POLICY)
def test_updates_from_a_rollout_match_sb3(name: str) -> None:
    case = ON_POLICY[name]
    model = model_of(case)
    buffer = model.rollout_buffer
    steps, callback = model._setup_learn(buffer.buffer_size)
    model.collect_rollouts(model.env, callback, buffer, steps)
    buffer.advantages = standardized(buffer.advantages, np.ones_like(buffer.advantages, np.bool_))
    with imported(model, case) as training:
        trainee = only_trainee(training)
        assert max(differences(model, trainee).values()) == 0
        first = trainee.learner.flat()
        # One call of A2C's `train` is one update, from the whole rollout.
        size, passes = (None, UPDATES) if case.theirs is A2C else (model.batch_size, model.n_epochs)
        np.random.seed(0)
        for data in [data for _ in range(passes) for data in buffer.get(size)]:
            batch = rows(
                obs=data.observations,
                actions=actions_of(data, model),
                logp=data.old_log_prob,
                values=data.old_values,
                advantages=data.advantages,
                value_targets=data.returns,
            )
            step(trainee, batch)
        np.random.seed(0)
        for _ in range(UPDATES if case.theirs is A2C else 1):
            model.train()
        assert trainee.learner.sgd_steps == UPDATES
        assert np.abs(trainee.learner.flat() - first).max() > 30 * MOST
        found = differences(model, trainee)
        assert max(found.values()) <= MOST, found


def draws(name: str, size: int, dimensions: int) -> Columns:
    """Normal numbers that SB3 draws for an update after `torch.manual_seed`, as columns of a minibatch."""
    if name in ("sac", "tqc"):
        return {
            column: torch.normal(torch.zeros(size, dimensions), torch.ones(size, dimensions)).numpy()[:, None]
            for column in ("noise", "next_noise")
        }
    if name == "td3":
        return {"next_noise": torch.empty(size, dimensions).normal_(0, 0.2).numpy()[:, None] / np.float32(0.2)}
    return {}


@pytest.mark.parametrize("name", REPLAY)
def test_updates_from_a_replay_buffer_match_sb3(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = REPLAY[name]
    model = model_of(case)
    model.learn(case.theirs["learning_starts"])
    if name in ("sac", "tqc"):  # SB3 adds 1e-6 to the derivative of tanh; rlrun computes its logarithm exactly
        model.actor.action_dist.epsilon = 1e-12
    if name == "tqc":  # SB3's critic loss is the mean over critics and quantiles, rlrun's is the sum
        model.critic.optimizer.param_groups[0]["eps"] /= QUANTILES * model.critic.n_critics
    with imported(model, case) as training:
        trainee = only_trainee(training)
        assert max(differences(model, trainee).values()) == 0
        first = trainee.learner.flat()
        config = training.description.algorithm.config
        assert (config.minibatch_size, config.gamma) == (ROWS, model.gamma)
        for number in range(1, UPDATES + 1):
            np.random.seed(number)
            data = model.replay_buffer.sample(ROWS)
            torch.manual_seed(number)
            drawn = draws(name, *data.actions.shape)
            monkeypatch.setattr(trainee.policy, "draws", lambda *_, drawn=drawn: drawn)
            batch = rows(
                obs=data.observations,
                next_obs=data.next_observations,
                actions=actions_of(data, model),
                rewards=data.rewards.flatten(),
                discounts=model.gamma * (1 - data.dones.flatten()),
                weights=np.ones(ROWS, np.float32),
            )
            # SB3's TD3 updates the actor on the second of two minibatches, rlrun's on the first.
            step(trainee, batch, ["critics"] if name == "td3" and number == 1 else None)
            if number % config.target_update_interval == 0:
                trainee.learner.update_target(config.tau)
            np.random.seed(number)
            torch.manual_seed(number)
            model.train(1, ROWS)
            for _ in range(model.train_freq.frequency):
                model._on_step()
        assert np.abs(trainee.learner.flat() - first).max() > 30 * MOST
        found = differences(model, trainee)
        assert max(found.values()) <= MOST, found
