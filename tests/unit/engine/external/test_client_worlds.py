"""Fragments of episodes that clients run: rows, counts, logged actions, resumes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import LOGGED
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import Waiting, Watched, hangs_fail_after
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.agents import agents_of
from rlrun.engine.external.client import Client, Refused
from rlrun.engine.external.env_client import LocalPolicy
from rlrun.engine.external.message import action_of
from rlrun.engine.flow.operators.advantages import ComputeAdvantages
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.client_weights import policy_in_json
from rlrun.engine.training.assemble.external_env import with_logged_actions
from rlrun.engine.worlds.make import check_world
from tests.external_recording import IN_JSON, SPACES, external, recording
from tests.policies import plain_policy

pytestmark = pytest.mark.timeout(60)


@contextmanager
def simulating(address: str, play: Any) -> Iterator[list[Any]]:
    """Runs `play(client)` in a thread; in the end, the list holds what it returned or raised."""
    told: list[Any] = []
    client = Client(address, patience_s=1.0)

    def run() -> None:
        try:
            told.append(play(client))
        except Exception as error:
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield told
    thread.join()
    client.close()


def play(client: Client, lengths: tuple[int, ...] = (3, 2)) -> list[int]:
    """Plays episodes whose observation is the step plus 10 times the episode, and whose reward is the step."""
    actions = []
    for number, length in enumerate(lengths):
        episode = client.start_episode()
        for step in range(length):
            actions.append(client.get_action(episode, [10.0 * number + step]))
            client.log_returns(episode, step)
        client.end_episode(episode, [10.0 * number + length])
    return actions


def test_a_fragment_holds_a_clients_steps_in_order_with_their_rewards_and_episode_ends() -> None:
    with recording(1, 9) as (_, address, record), simulating(address, play) as told:
        recorded = record()
    batch = recorded.batches["default"]
    valid = batch["valid"][:, 0]
    assert batch["obs"][:7, 0, 0].tolist() == [0, 1, 2, 3, 10, 11, 12]
    assert valid.tolist() == [True, True, True, False, True, True, False, False, False]
    assert batch["rewards"][valid, 0].tolist() == [0, 1, 2, 0, 1]
    assert batch["terminateds"][valid, 0].tolist() == [False, False, True, False, True]
    assert batch["actions"][valid, 0].tolist() == told[0]
    assert [(own.episode_return, own.length) for own in recorded.episodes] == [(3.0, 3), (1.0, 2)]
    assert recorded.env_steps == 5
    infos = [own.info for own in recorded.agent_episodes["default"]]
    assert infos == [{"client_lost": 0.0, "logged_actions": 0.0}] * 2


def test_requests_of_two_clients_are_answered_in_one_batch() -> None:
    both_begun = threading.Barrier(2)

    def play_with_the_other(client: Client) -> None:
        episode = client.start_episode()
        both_begun.wait()
        for step in range(4):
            client.get_action(episode, [step])
        client.end_episode(episode, [4.0])

    with (
        recording(2, 5, gather_ms=60_000.0) as (_, address, record),
        simulating(address, play_with_the_other),
        simulating(address, play_with_the_other),
    ):
        recorded = record()
    assert np.count_nonzero(recorded.batches["default"]["valid"], axis=0).tolist() == [4, 4]
    assert recorded.env_steps == 8


def test_recurrent_state_is_reset_at_each_episode_start() -> None:
    model = {"core": "gru", "core_width": 4}
    with recording(1, 9, model=model) as (_, address, record), simulating(address, play):
        batch = record().batches["default"]
    assert batch["episode_starts"][:7, 0].nonzero()[0].tolist() == [0, 4]
    assert (batch["state"][[0, 4], 0] == 0).all()
    assert (batch["state"][[2, 5], 0] != 0).any(axis=1).all()


def log_one(client: Client) -> None:
    episode = client.start_episode()
    client.get_action(episode, [0.0])
    client.log_returns(episode, 1.0)
    try:
        client.log_action(episode, [1.0], 2)
    except Refused:
        client.end_episode(episode)
        raise
    client.log_returns(episode, 5.0)
    client.end_episode(episode, [2.0])


def test_masked_logged_actions_contribute_to_advantages_but_not_to_losses() -> None:
    with recording(1, 4, logged_actions="mask") as (_, address, record), simulating(address, log_one) as told:
        recorded = record()
    assert told == [None]
    batch = recorded.batches["default"]
    assert (batch["actions"][1, 0], batch[LOGGED][:, 0].tolist()) == (2, [False, True, False, False])
    assert recorded.agent_episodes["default"][0].info["logged_actions"] == 1.0
    learned = ComputeAdvantages(1.0, 1.0)(batch)
    assert learned["valid"][:, 0].tolist() == [True, False, False, False]
    assert learned["value_targets"][0, 0] == pytest.approx(6.0)  # includes the reward after the logged action


def test_the_refusal_of_logged_actions_names_the_setting_that_allows_them() -> None:
    with recording(1, 1) as (_, address, record), simulating(address, log_one) as told:
        record()  # its first action
        record()
    (refused,) = told
    assert isinstance(refused, Refused)
    assert (refused.code, "env.external.logged_actions" in str(refused)) == ("logged_action_refused", True)


def test_a_resume_replays_no_actions_and_counts_the_restarted_episodes() -> None:
    with recording(2, 4) as (recorder, address, record), simulating(address, lambda client: play(client, (9,))) as told:
        record()
        state = recorder.state()
        for kept in (state, recorder.place()):
            assert "actions" not in kept["policies"]["default"]
        with recording(2, 4) as (resumed, _, _):
            anew = resumed.load_state(state)
            assert anew["default"].tolist() == [True, False]  # the second world was idle
            assert [place.episode for place in resumed._worlds.places()] == [1, 0]
            assert not resumed._rows.policies["default"].acts.any()
        recorder.close()
    assert isinstance(told[0], Exception)  # the server is gone


def test_replay_algorithms_learn_from_logged_actions_but_on_policy_ones_refuse_them_by_default() -> None:
    def decided(config: EnvConfig, algorithm: Any) -> str | None:
        env = with_logged_actions(config, {"p": algorithm}).external
        assert env is not None
        return env.logged_actions

    recurrent = PPO(PPO.Config.parse({"model": {"core": "gru"}}))
    assert decided(external(), DQN(DQN.Config())) == "learn"
    assert decided(external(), PPO(PPO.Config())) == "refuse"
    assert decided(external(logged_actions="mask"), PPO(PPO.Config())) == "mask"
    for algorithm, setting, reason in [
        (PPO(PPO.Config()), "learn", "use mask"),
        (recurrent, "mask", "memory"),
        (Impala(Impala.Config()), "mask", "cannot leave out"),
        (DQN(DQN.Config()), "mask", "can learn"),
    ]:
        with pytest.raises(UsageError, match=reason):
            decided(external(logged_actions=setting), algorithm)


def test_waiting_for_clients_does_not_count_as_a_hang() -> None:
    outer = Watched("env external", list)
    with hangs_fail_after(1e-9), outer:
        waiting = Waiting()
        with waiting:
            waiting.look()  # would end the process if waiting counted as a hang
        assert outer._moved > 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"spaces": {"observation": IN_JSON["observation"]}}, "needs `observation` and `action`"),
        ({"spaces": {**IN_JSON, "action": {"type": "Discreet", "n": 2}}}, "is not a space: its type must be one of"),
        ({"spaces": "no_such.json"}, "no_such.json: file not found"),
        ({"port": 70_000}, "65535"),
        ({"prot": 1}, "port"),
    ],
)
def test_mistakes_in_the_settings_of_an_external_env_are_explained(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((SpecError, UsageError), match=says):
        check_world(external(**settings))


def test_settings_that_do_not_apply_to_external_envs_are_refused() -> None:
    with pytest.raises(SpecError, match="leave out wrappers"):
        EnvConfig.parse({"external": {"spaces": IN_JSON}, "wrappers": ["a:B"]})
    resolved = external().model_dump(mode="json")
    assert EnvConfig.parse(resolved) == external()


def test_spaces_can_be_abbreviated_and_read_from_a_file(tmp_path: Any) -> None:
    file = tmp_path / "spaces.json"
    file.write_text(
        '{"observation": {"type": "Box", "shape": [1], "low": -1000, "high": 1000}, "action": '
        '{"type": "Discrete", "n": 3}}'
    )
    config = external(spaces=str(file)).external
    assert config is not None
    assert agents_of(config) == {"agent": SPACES}
    file.unlink()
    saved = external(spaces=config.spaces)  # as in a resolved spec
    assert EnvConfig.parse(saved.model_dump()) == saved


def act_here(client: Client) -> list[int]:
    policy = LocalPolicy(client, seed=3)
    episode, actions, versions = client.start_episode(), [], []
    for step in range(3):
        actions.append(policy.act([step / 10]))
        said = policy.version - (step == 1)  # one action is logged as chosen by older weights
        versions.append(client.log_action(episode, [step / 10], actions[-1], version=said))
        policy.follow(versions[-1])
    client.end_episode(episode, [0.3])
    assert versions == [4, 4, 4]
    assert client.get_weights(4) == {"version": 4}
    return actions


def test_client_side_actions_count_as_the_policys_own_unless_made_with_outdated_weights() -> None:
    with recording(1, 5, logged_actions="mask") as (_, address, record), simulating(address, act_here) as told:
        recorded = record()
    batch = recorded.batches["default"]
    assert batch["actions"][:3, 0].tolist() == told[0]
    assert batch[LOGGED][:, 0].tolist() == [False, True, False, False, False]
    assert recorded.agent_episodes["default"][0].info["logged_actions"] == 1.0


@given(st.integers(0, 2**16), st.sampled_from(["tanh", "relu", "elu", "silu"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_policy_exported_to_json_has_the_same_logits_as_the_original(
    seed: int, activation: Any, normalize: bool
) -> None:
    spaces = Spaces(Box(-np.inf, np.inf, (3,), np.float32), Discrete(4, start=2))
    model = ModelConfig(hiddens=(5, 3), activation=activation)
    policy = plain_policy(ActorCriticPolicy, *spaces, model, seed=seed, normalize_observations=normalize)
    rows = np.random.default_rng(seed).normal(2.0, 3.0, (6, 3)).astype(np.float32)
    filters = {"observations/": Moments.of(rows, 1)} if normalize else {}
    weights = Weights(7, policy.parameters.gather(policy.module).numpy(), filters)
    behavior = policy.behavior()
    behavior.load(weights)

    class Served:
        def get_weights(self, version: int) -> dict[str, Any]:
            return {"version": 7, **json.loads(json.dumps(policy_in_json(behavior, weights)))}

    class NoNoise:
        def gumbel(self, size: Any) -> Any:
            return np.zeros(size)

    assert policy_in_json(behavior, weights)["clip"] == (10.0 if normalize else None)
    here = LocalPolicy(Served())
    here._random = NoNoise()
    assert [here.act(row) for row in rows] == np.asarray(behavior.actions(rows, None)).tolist()


@given(st.integers(0, 2**16))
@settings(max_examples=10, deadline=None)
def test_a_client_samples_box_actions_as_the_policy_does_and_logs_them_unclipped(seed: int) -> None:
    low, high = np.array([[-3.0, 1.0]], np.float32), np.array([[5.0, np.inf]], np.float32)
    spaces, model = (
        Spaces(Box(-np.inf, np.inf, (3,), np.float32), Box(low, high)),
        ModelConfig(hiddens=(5,), log_std_init=0.3),
    )
    policy = plain_policy(ActorCriticPolicy, *spaces, model, seed=seed)
    weights = Weights(7, policy.parameters.gather(policy.module).numpy())
    behavior = policy.behavior()
    behavior.load(weights)
    space, noise = behavior.action_space, np.random.default_rng(seed).normal(0, 2, (6, 2)).astype(np.float32)
    assert isinstance(space, GaussianBoxActions)

    class Served:
        def get_weights(self, version: int) -> dict[str, Any]:
            return {"version": 7, **json.loads(json.dumps(policy_in_json(behavior, weights)))}

    class Given:
        def __init__(self) -> None:
            self.rows = iter(noise)

        def standard_normal(self, shape: Any, dtype: Any) -> Any:
            return next(self.rows).reshape(shape)

    here = LocalPolicy(Served())
    here._random = Given()
    rows = np.random.default_rng(seed).normal(size=(6, 3)).astype(np.float32)
    logged = np.array([action_of(spaces, here.act(row).tolist(), is_drawn=True) for row in rows])
    outputs = behavior.unmasked_network({"obs": rows})[0]["outputs"]
    drawn = space.sample(outputs, noise)
    own = behavior.action_space.from_env(logged)
    np.testing.assert_allclose(own, drawn, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        space.log_prob(outputs, own),
        space.log_prob(outputs, drawn),
        rtol=1e-4,
        atol=1e-4,
    )
    in_env = np.array([here.to_env(action) for action in logged])
    np.testing.assert_allclose(in_env, space.to_env(drawn), rtol=1e-4, atol=1e-5)
    assert all(spaces.action.contains(action) for action in in_env)
    assert not np.array_equal(in_env, logged)


@pytest.mark.parametrize(
    ("action", "model", "reason"),
    [
        (
            MultiDiscrete([2, 3]),
            {},
            "the policy's actions are neither Discrete nor Box: request actions with get_action",
        ),
        (
            Discrete(2),
            {"core": "gru"},
            "the policy's network is not a dense network on a vector: request actions with get_action",
        ),
        (
            Box(-1, 1, (2,)),
            {"core": "gru"},
            "the policy's network is not a dense network on a vector: request actions with get_action",
        ),
        (
            Box(-1, 1, (2,)),
            {"use_sde": True},
            "the policy does not sample actions from its own distribution: request actions with get_action",
        ),
    ],
)
def test_policies_that_json_cannot_represent_are_refused_with_the_reason(
    action: Any, model: dict[str, Any], reason: str
) -> None:
    policy = plain_policy(ActorCriticPolicy, SPACES.observation, action, ModelConfig(hiddens=(4,), **model), seed=0)
    weights = Weights(0, policy.parameters.gather(policy.module).numpy())
    with pytest.raises(UsageError, match=reason):
        policy_in_json(policy.behavior(), weights)
