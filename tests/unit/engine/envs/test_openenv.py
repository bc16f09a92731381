"""Envs of OpenEnv servers: a tiny server of its protocol, over real WebSockets."""

from __future__ import annotations

import dataclasses
import json
import threading
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.bridges.openenv import OpenEnv, OpenEnvError
from rlrun.engine.envs.env_config import OPENENV, EnvConfig
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_env, make_vector_env
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.training.training import Training
from rlrun.engine.trust import spec_risks

pytest.importorskip("websockets", reason="the extra openenv is not installed")

SPACES = {
    "observation": {
        "type": "Dict",
        "spaces": {"position": {"type": "Box", "shape": [2], "low": -9, "high": 9}},
    },
    "action": {"type": "Dict", "spaces": {"move": {"type": "Discrete", "n": 2}}},
}


class Walk:
    """Session of a walk: `move` 1 goes right and is rewarded, the third step is the last."""

    def __init__(self) -> None:
        self.position = [0.0, 0.0]
        self.steps = 0

    def answer(self, message: Any) -> Any:
        data = message["data"]
        if message["type"] == "reset":
            self.position, self.steps = [float(data["seed"] % 7), 0.0], 0
        elif "move" not in data:
            return {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "Invalid message"}}
        else:
            self.position[1] += data["move"]
            self.steps += 1
        observation = {"position": self.position, "remark": "ignored"}
        done = self.steps == 3
        reward = float(data["move"]) if self.steps else None
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


@contextmanager
def served(wrong: dict[str, Any] | None = None) -> Any:
    """Serves walks; yields the address, and the messages of each session.

    Args:
        wrong: Texts that are sent in place of answers, by the kind of the message; None for a closed connection.
    """
    from websockets.sync.server import serve

    sessions: list[list[Any]] = []

    def handle(connection: Any) -> None:
        walk = Walk()
        received: list[Any] = []
        sessions.append(received)
        for text in connection:
            message = json.loads(text)
            received.append(message)
            if wrong is not None and message["type"] in wrong:
                if (answer := wrong[message["type"]]) is None:
                    return
                connection.send(answer)
            else:
                connection.send(json.dumps(walk.answer(message)))

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", sessions
        server.shutdown()
        thread.join()


def config(url: str, **further: Any) -> EnvConfig:
    return EnvConfig.parse({"openenv": {"url": url, "spaces": SPACES, **further}})


def test_an_episode_on_a_server_exchanges_actions_and_observations_as_message_fields():
    with served() as (url, sessions):
        env = make_env(config(url))
        observation, _ = env.reset(seed=5)
        np.testing.assert_array_equal(observation["position"], np.float32([5, 0]))
        steps = [env.step({"move": np.int64(move)}) for move in (1, 0, 1)]
        env.close()
    assert [step[1:4] for step in steps] == [(1.0, False, False), (0.0, False, False), (1.0, True, False)]
    np.testing.assert_array_equal(steps[-1][0]["position"], np.float32([5, 2]))
    (received,) = sessions
    assert received[0] == {"type": "reset", "data": {"seed": 5}}
    assert [message for message in received[1:] if message["type"] == "step"] == [
        {"type": "step", "data": {"move": move}} for move in (1, 0, 1)
    ]


def test_a_policy_trains_on_a_server_with_one_session_per_env_slot():
    settings = {"compile": False, "train_batch_size": 16, "minibatch_size": 16, "num_envs_per_worker": 2}
    with (
        served() as (url, sessions),
        Training(config(url), PPO(PPO.Config.parse({**settings, "model": {"hiddens": [4]}}))) as training,
    ):
        env_steps = training.step()["env_steps"]
    slots = [[message["type"] for message in session if message["type"] != "close"] for session in sessions]
    assert [kinds.count("step") for kinds in slots] == [env_steps / 2] * 2
    for kinds in slots:
        assert kinds == (["reset", "step", "step", "step"] * len(kinds))[: len(kinds)]


def test_a_resume_replays_actions_on_the_server_only_if_max_replay_s_is_set():
    with served() as (url, sessions):
        for given, expected in ({}, 0), ({"max_replay_s": 60.0}, 2):
            env = make_vector_env(config(url).replace(**given), 1, EpisodeSeeds(0, 0))
            env.reset()
            places = env.places()
            places[0] = dataclasses.replace(places[0], length=2)
            (received,) = sessions
            received.clear()
            env.restore(places, [{"move": np.array([1, 1])}], ["a hash"], config(url).replace(**given).max_replay_s)
            env.close()
            assert sum(message["type"] == "step" for message in received) == expected
            sessions.clear()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"step": json.dumps({"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "fell over"}})},
         "answered step with the error EXECUTION_ERROR: fell over"),
        ({"step": "{"}, "answered step with invalid JSON:"),
        ({"step": "[]"}, r"answered step with \[\]"),
        ({"step": None}, "the connection failed during step"),
        ({"step": json.dumps({"type": "observation", "data": {"observation": {"place": 1}}})},
         r"step: the observation lacks the key \['position'\].*sent the fields \['place'\]"),
        ({"step": json.dumps({"type": "observation", "data": {"observation": {"position": [0]}}})},
         r"step: the observation at 'position' has shape \(1,\)"),
        ({"step": json.dumps({"type": "observation", "data": {"reward": "much"}})}, "the reward 'much'"),
    ],
)  # fmt: skip
def test_errors_of_a_faulty_server_include_its_address(wrong, message):
    with served(wrong) as (url, _):
        env = make_env(config(url))
        env.reset(seed=0)
        with pytest.raises(OpenEnvError, match=f"{url.replace('http', 'ws')}/ws.*{message}"):
            env.step({"move": 1})
        env.close()


def test_a_silent_or_unreachable_server_is_reported_and_the_env_must_then_be_reset():
    with served({"reset": None}) as (url, _):
        env = make_env(config(url))
        with pytest.raises(OpenEnvError, match="the connection failed during reset"):
            env.reset(seed=0)
    with pytest.raises(OpenEnvError, match="the connection failed during reset"):
        env.reset(seed=0)
    with pytest.raises(OpenEnvError, match="reset the env first"):
        env.step({"move": 1})


def test_mistakes_in_the_spec_are_reported_before_connecting(wording):
    with pytest.raises(SpecError, match="leave out id"):
        EnvConfig.parse({"openenv": {"url": "ws://a"}, "id": "CartPole-v1"})
    with wording.raised(SpecError, "ws://a"):
        EnvConfig.parse({"openenv": "ws://a"})
    with pytest.raises(SpecError) as told:
        EnvConfig.parse({"openenv": {"url": 3, "timeout": 1}})
    assert {problem.path: problem.message for problem in told.value.problems} == {
        "openenv.url": wording(),
        "openenv.spaces": "is missing",
        "openenv.timeout": wording("timeout_s"),
    }
    with wording.raised(UsageError, "/localhost:8000"):
        OpenEnv("localhost:8000", SPACES)
    with wording.raised(UsageError):
        OpenEnv("ws://a", {**SPACES, "action": SPACES["action"]["spaces"]["move"]})
    with pytest.raises(UsageError, match="`observation` and `action`"):
        OpenEnv("ws://a", {})


def test_the_risks_of_a_spec_include_the_server_it_connects_to():
    spec = {"algorithm": "ppo", "env": config("ws://elsewhere.example").to_data(), "config": {}}
    demands = spec_risks(spec)
    assert any("elsewhere.example" in demand for demand in demands)
    assert any(OPENENV in demand for demand in demands)


def test_an_episode_can_be_played_on_a_server_from_the_openenv_package():
    env_server = pytest.importorskip("openenv.core.env_server", reason="the package openenv-core is not installed")
    import socket

    import uvicorn
    from openenv.core.env_server.types import Action, Observation, State

    class Move(Action):
        move: int

    class Seen(Observation):
        position: list[float]
        remark: str = "ignored"

    class Steps(env_server.Environment):
        def reset(self, seed=None, episode_id=None, **further):
            self.position = [float(seed), 0.0]
            return Seen(position=self.position)

        def step(self, action, timeout_s=None, **further):
            self.position = [self.position[0], self.position[1] + action.move]
            return Seen(position=self.position, done=self.position[1] == 2, reward=float(action.move))

        @property
        def state(self):
            return State(step_count=int(self.position[1]))

    Move.model_rebuild(_types_namespace={})
    Seen.model_rebuild(_types_namespace={})
    bound = socket.create_server(("127.0.0.1", 0))
    app = env_server.create_fastapi_app(Steps, Move, Seen)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    env = make_env(config(f"http://127.0.0.1:{bound.getsockname()[1]}"))
    env.reset(seed=5)
    env.step({"move": 1})
    with pytest.raises(OpenEnvError, match="VALIDATION_ERROR"):
        env.unwrapped._ask("step", {"mvoe": 1})
    observation, reward, terminated, truncated, _ = env.step({"move": 1})
    env.close()
    server.should_exit = True
    thread.join()
    np.testing.assert_array_equal(observation["position"], np.float32([5, 2]))
    assert (reward, terminated, truncated) == (1.0, True, False)
