"""A served policy acts as in training: one by one, in batches, in sessions and across reloads."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.ppo import PPO
from rlrun.cli.serve import load_policy
from rlrun.deploy.serving.decisions import Asked, Decisions, Sessions
from rlrun.deploy.serving.policy_app import PAGE, Batches, PolicyApp
from rlrun.deploy.serving.reloading import Reloader
from rlrun.deploy.serving.served_policy import ServedPolicy
from rlrun.deploy.serving.serving_metrics import ServingMetrics
from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import CheckpointRefused, RlrunError, UsageError
from rlrun.engine.training.training import Training
from rlrun.engine.web.listening import Listening
from rlrun.engine.web.web_server import WebServer
from tests.unit.engine.web.asking import ask


def saved(folder: Path, env: str, algorithm: Any = PPO, *, seed: int = 0, **config: Any) -> Path:
    with Training(env, algorithm(algorithm.Config.parse({"compile": False, **config})), seed=seed) as training:
        return training.save(folder)


def loaded(checkpoint: Path, **wanted: Any) -> ServedPolicy:
    """The policy as the command's process receives it."""
    policy = load_policy(checkpoint, checkpoint.parent.parent, wanted.pop("trust", False), wanted.pop("name", ""), None)
    return pickle.loads(pickle.dumps(policy))


@contextmanager
def serving(served: ServedPolicy, draws: np.random.Generator | None = None, most: int = 10, **listening: Any) -> Any:
    app, listens = PolicyApp(Decisions(served, draws), Sessions(most, 60.0)), Listening(**listening)
    with WebServer(app.asgi(listens), listens) as server:
        server.app = app
        yield server
    app.close()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("dense") / "checkpoint", "CartPole-v1", model={"hiddens": [8]})


@pytest.fixture(scope="module")
def dense_server(dense: Path) -> Any:
    with serving(loaded(dense), most=1) as server:
        yield server


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = {"hiddens": [8], "core": "gru", "core_width": 4, "views": {"prev_rewards": 2, "prev_actions": 1}}
    return saved(tmp_path_factory.mktemp("recurrent") / "checkpoint", "CartPole-v1", model=model)


def observations(number: int) -> list[list[float]]:
    return generator(0, "observations").normal(size=(number, 4)).astype(np.float32).tolist()


def test_served_actions_match_those_in_training_and_answers_identify_the_checkpoint(dense):
    served, rows = loaded(dense), observations(20)
    with Training.restore(dense, eager=True) as training:
        expected = [int(training.act(np.float32(row))) for row in rows]
    with serving(served) as server:
        status, answer = ask(server, "/act", {"observations": rows})
        assert (status, answer) == (200, {"actions": expected, "env_steps": 0, "digest": served.digest})
        assert ask(server, "/act", {"observation": rows[0]})[1]["action"] == expected[0]
    assert re.fullmatch("[0-9a-f]{64}", served.digest)


def test_details_of_answers_are_probabilities_for_actor_critics_and_values_for_q_policies(dense, tmp_path, wording):
    row = observations(1)[0]
    with serving(loaded(dense)) as server:
        details = ask(server, "/act", {"observation": row, "details": True})[1]["details"]
        several = ask(server, "/act", {"observations": [row, row], "details": True})[1]["details"]
    assert sum(details["probabilities"]) == pytest.approx(1.0)
    assert isinstance(details["state_value"], float)
    assert len(several) == 2
    checkpoint = saved(tmp_path / "masked", "rlrun.toys:MaskedGrid", DQN, model={"hiddens": [8]})
    served = loaded(checkpoint)
    example = served.schema()["example"]
    example["action_mask"] = [1, 0, 1, 0][: len(example["action_mask"])]
    with serving(served) as server:
        answer = ask(server, "/act", {"observation": example, "details": True})[1]
        values = answer["details"]["action_values"]
        assert [value is None for value in values] == [not allowed for allowed in example["action_mask"]]
        assert example["action_mask"][answer["action"]]
        example["action_mask"] = [0] * len(values)
        assert ask(server, "/act", {"observation": example}) == (
            400,
            {"error": "bad_message", "message": wording("action_mask")},
        )


def test_each_of_two_interleaved_sessions_acts_as_in_an_episode_of_its_own(recurrent):
    rows = observations(12)
    with Training.restore(recurrent, eager=True) as training:
        policy = training.acting.policy()
        expected, memories = [], [None, None]
        for step, row in enumerate(rows):
            own = step % 2
            action, memories[own] = policy.act_with_memory(memories[own], np.float32(row), prev_reward=float(step))
            expected.append(int(action))
    with serving(loaded(recurrent)) as server:
        found, sessions = [], [None, None]
        for step, row in enumerate(rows):
            asked = {"session": sessions[step % 2], "observation": row, "reward": step, "details": step < 3}
            answer = ask(server, "/session", asked)[1]
            sessions[step % 2] = answer["session"]
            found.append(answer["action"])
        assert found == expected
        assert len(set(sessions)) == 2
        first = ask(
            server, "/session", {"session": sessions[0], "observation": rows[0], "reset": True, "details": True}
        )
        begun = ask(server, "/session", {"observation": rows[0], "details": True})
        assert first[1]["details"] == begun[1]["details"]
        assert ask(server, f"/session/{sessions[1]}", method="DELETE") == (200, {"ended": sessions[1]})
        status, answer = ask(server, "/session", {"session": sessions[1], "observation": rows[0]})
        assert (status, answer["error"]) == (404, "session_unknown")
        assert ask(server, "/act", {"observation": rows[0]})[0] == 409


def test_an_action_executed_instead_of_the_answer_enters_the_memory_of_a_session(recurrent):
    rows = observations(2)
    found = []
    with serving(loaded(recurrent)) as server:
        for executed in (0, 1):
            session = ask(server, "/session", {"observation": rows[0]})[1]["session"]
            asked = {"session": session, "observation": rows[1], "executed_action": executed, "details": True}
            found.append(ask(server, "/session", asked)[1]["details"]["probabilities"])
    assert found[0] != found[1]


def test_the_number_of_sessions_is_limited_and_sessions_expire(wording):
    now = [0.0]
    sessions = Sessions(2, 10.0, clock=lambda: now[0])
    first, second = sessions.begin(), sessions.begin()
    with wording.raised(Exception):
        sessions.begin()
    now[0] = 8.0
    assert sessions.existing(first.id) is first
    now[0] = 12.0
    assert len(sessions) == 1
    with wording.raised(Exception, "404"):
        sessions.existing(second.id)
    with wording.raised(Exception, "404"):
        sessions.existing([first.id])
    sessions.end(first.id)
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"observatoin": [0, 0, 0, 0]}, "unknown key 'observatoin'; did you mean 'observation'?"),
        ({}, "send either `observation`, or `observations` with a list"),
        ({"observations": []}, "`observations` must be a list of 1 to 4,096 observations"),
        ({"observations": [[0, 0, 0, 0]] * 4097}, "`observations` must be a list of 1 to 4,096 observations"),
        ({"observations": [[0, 0, 0, 0], [0, 0, 0]]}, "the observation 1 has shape (3,), but its space has (4,)"),
        ({"observation": [0, 0, 0, 0], "details": 1}, "`details` must be true or false, not 1"),
    ],
)
def test_invalid_requests_are_refused_with_a_message(dense_server, asked, message):
    status, answer = ask(dense_server, "/act", asked)
    assert status == 400
    assert answer["message"].startswith(message)


def test_invalid_session_requests_are_refused_without_starting_a_session(dense_server):
    row = [0, 0, 0, 0]
    refused = [
        {"observation": [0, 0, 0]},
        *({"observation": row, "reward": reward} for reward in ("1", True, None, 10**400, -1e39)),
        '{"observation": [0, 0, 0, 0], "reward": 1e999}',
        {"observation": [10**400, 0.5, 0, 0]},
        {"observation": row, "executed_action": 2},
        {"observation": row, "executed_action": True},
    ]
    for asked in (*refused, {}):
        assert ask(dense_server, "/session", asked)[0] == 400
    assert ask(dense_server, "/session", {"observation": row})[0] == 200
    assert ask(dense_server, "/session", {"observation": row})[0] == 503


def test_served_stochastic_actions_are_drawn_with_the_probabilities_of_the_policy(dense):
    row = observations(1)[0]
    with serving(loaded(dense), generator(0, "serve")) as server:
        answer = ask(server, "/act", {"observations": [row] * 2_000, "details": True})[1]
    probability = answer["details"][0]["probabilities"][1]
    assert np.mean(answer["actions"]) == pytest.approx(probability, abs=5 * np.sqrt(0.25 / 2_000))


def test_requests_that_arrive_during_a_computation_are_computed_together(dense):
    sizes, has_begun, may_go_on = [], threading.Event(), threading.Event()
    decisions = Decisions(loaded(dense), None)

    def decide(asked: Any) -> Any:
        sizes.append(len(asked))
        has_begun.set()
        assert may_go_on.wait(60)
        return decisions.decide(asked)

    async def one_and_then_six() -> Any:
        batches = Batches(decide, most_rows=4)
        rows = np.float32(observations(7))
        tasks = [asyncio.create_task(batches.answer(Asked(rows[:1], 1)))]
        assert await asyncio.to_thread(has_begun.wait, 60)
        tasks += [asyncio.create_task(batches.answer(Asked(row[None], 1))) for row in rows[1:]]
        await asyncio.sleep(0)
        may_go_on.set()
        answers = await asyncio.gather(*tasks)
        batches.close()
        return rows, [answer["actions"] for answer in answers]

    rows, found = asyncio.run(one_and_then_six())
    assert sizes == [1, 4, 2]
    assert found == [decisions.decide([Asked(row[None], 1)])[0]["actions"] for row in rows]


def test_a_failing_network_fails_only_the_requests_of_its_batch():
    async def asked_twice() -> Any:
        answers = iter([ZeroDivisionError("in a network"), None])

        def decide(asked: Any) -> Any:
            if error := next(answers):
                raise error
            return [{"actions": [1]}]

        batches = Batches(decide, most_rows=4)
        with pytest.raises(ZeroDivisionError):
            await batches.answer(Asked(None, 1))
        found = await batches.answer(Asked(None, 1))
        batches.close()
        return found

    assert asyncio.run(asked_twice()) == {"actions": [1]}


def test_a_failing_request_does_not_fail_others_in_its_batch():
    asked = [Asked(None, 1, prev_reward=float(number)) for number in range(4)]
    sizes = []

    def decide(batch: Any) -> Any:
        sizes.append(len(batch))
        if asked[2] in batch:
            raise ZeroDivisionError("in a network")
        return [{"actions": [one.prev_reward]} for one in batch]

    async def together() -> Any:
        batches = Batches(decide, most_rows=4)
        found = await asyncio.gather(*(batches.answer(one) for one in asked), return_exceptions=True)
        batches.close()
        return found

    first, second, third, fourth = asyncio.run(together())
    assert [first, second, fourth] == [{"actions": [number]} for number in (0.0, 1.0, 3.0)]
    assert isinstance(third, ZeroDivisionError)
    assert sizes == [4, 1, 1, 1, 1]


def test_a_failing_batch_leaves_sessions_unchanged(recurrent):
    decisions = Decisions(loaded(recurrent), None)
    rows = np.float32(observations(3))
    sessions = Sessions(2, 60.0)
    session, other = sessions.begin(), sessions.begin()
    steps = [Asked(row[None], 1, details=True, session=session) for row in rows]
    with pytest.raises(OverflowError):
        decisions.decide([*steps[:2], Asked(rows[:1], 1, session=other, prev_reward=10**400)])
    assert session.memory is None
    assert other.memory is None
    found = [*decisions.decide(steps[:2]), *decisions.decide(steps[2:])]
    session.memory = None
    assert [decisions.decide([step])[0] for step in steps] == found


def test_an_observation_that_makes_the_network_overflow_is_refused_with_a_message(tmp_path, wording):
    model = {"hiddens": [64, 64], "activation": "relu"}
    served = loaded(saved(tmp_path / "checkpoint", "CartPole-v1", DQN, model=model))
    with serving(served) as server:
        status, answer = ask(server, "/act", {"observation": [3e38] * 4, "details": True})
        assert (status, answer["message"]) == (
            400,
            wording("NaN"),
        )
        assert ask(server, "/act", {"observation": [3.0] * 4, "details": True})[0] == 200


def test_a_newer_checkpoint_is_served_and_unusable_ones_are_skipped(dense, tmp_path, wording):
    first = saved(tmp_path / "iteration_000001", "CartPole-v1", model={"hiddens": [8]})
    decisions, metrics, said = Decisions(loaded(first), None), ServingMetrics(), []
    newest = [first]
    reloader = Reloader(tmp_path, lambda: newest[0], loaded, decisions, metrics, said.append)
    assert not reloader.look()
    newest[0] = saved(tmp_path / "iteration_000002", "CartPole-v1", seed=1, model={"hiddens": [8]})
    before = decisions.served
    assert reloader.look()
    assert not reloader.look()
    assert decisions.served.digest != before.digest
    newest[0] = saved(tmp_path / "iteration_000003", "Acrobot-v1", model={"hiddens": [8]})
    assert not reloader.look()
    newest[0] = tmp_path / "iteration_000004"
    newest[0].mkdir()
    assert not reloader.look()
    assert decisions.served.checkpoint == "iteration_000002"
    assert (metrics.reloads, metrics.failed_reloads) == (1, 2)
    assert said[0] == wording("iteration_000002")
    assert "its spaces differ" in said[1]
    assert said[2] == wording("iteration_000002")


def test_failed_reloads_are_counted_and_retried_with_backoff(dense, tmp_path, wording):
    first = saved(tmp_path / "iteration_000001", "CartPole-v1", model={"hiddens": [8]})
    failing, loads, said = [OSError(24, "Too many open files")], [], []

    def load(checkpoint: Path) -> ServedPolicy:
        loads.append(checkpoint.name)
        if failing:
            raise failing[0]
        return loaded(checkpoint)

    newest = [first]
    with serving(loaded(first)) as server:
        metrics = server.app.metrics
        reloader = Reloader(tmp_path, lambda: newest[0], load, server.app.decisions, metrics, said.append)
        newest[0] = saved(tmp_path / "iteration_000002", "CartPole-v1", seed=1, model={"hiddens": [8]})
        assert [reloader.look() for _ in range(8)] == [False] * 8
        assert metrics.failed_reloads == len(loads) == 4  # retries after 1, 2 and 4 more looks
        assert said == wording("iteration_000001", "24")
        health = ask(server, "/health")[1]
        assert (health["status"], health["failed_reloads"]) == ("reload_failing", 4)
        failing[0] = ZeroDivisionError("another reason")
        newest[0] = saved(tmp_path / "iteration_000003", "CartPole-v1", seed=2, model={"hiddens": [8]})
        assert not reloader.look()
        assert said[1:] == wording("iteration_000001", "ZeroDivisionError")
        failing.clear()
        assert [reloader.look() for _ in range(16)].count(True) == 1
        health = ask(server, "/health")[1]
        assert (health["status"], health["failed_reloads"]) == ("ok", 5)
    assert server.app.decisions.served.checkpoint == "iteration_000003"
    assert said[2:] == wording("iteration_000003")


def test_health_and_page_require_no_token_and_metrics_count_requests_by_path_and_status(dense):
    token = "0123456789abcdef"
    with serving(loaded(dense), token=token) as server:
        bearer = {"Authorization": f"Bearer {token}"}
        health = ask(server, "/health")[1]
        assert health == {"status": "ok", "failed_reloads": 0, "uptime_s": health["uptime_s"]}
        assert ask(server, "/schema")[0] == 401
        assert ask(server, "/schema", **bearer)[1]["action_space"]["n"] == 2
        ask(server, "/act", {"observations": observations(3)}, **bearer)
        ask(server, "/act", {}, **bearer)
        text = ask(server, "/metrics", **bearer)[1]
        assert ask(server, "/")[1] == PAGE.read_text("utf-8")
    assert 'rlrun_requests_total{path="/act",status="200"} 1\n' in text
    assert 'rlrun_requests_total{path="/act",status="400"} 1\n' in text
    assert 'rlrun_request_seconds_count{path="/act"} 2\n' in text
    assert re.search(r'rlrun_request_seconds\{path="/act",quantile="0.99"\} 0\.\d+\n', text)
    assert "rlrun_decisions_total 3\n" in text
    assert token not in text


def test_the_page_loads_nothing_from_other_hosts(wording):
    page = PAGE.read_text("utf-8")
    assert wording("none", "self") in page.splitlines()
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|url\(", page)


def test_unknown_policies_and_simulations_for_a_policy_that_does_not_search_are_refused(dense, wording):
    with wording.raised(UsageError, "defalt", "default"):
        load_policy(dense, dense.parent, False, "defalt", None)
    with wording.raised(UsageError):
        load_policy(dense, dense.parent, False, "", 10)


def test_an_untrusted_checkpoint_that_names_code_is_served_only_with_trust(tmp_path, wording):
    checkpoint = saved(tmp_path / "checkpoint", "tests.unit.deploy.serving.an_env:AnEnv", model={"hiddens": [8]})
    with wording.raised(CheckpointRefused, "an_env:AnEnv"):
        load_policy(checkpoint, tmp_path, False, "", None)
    assert isinstance(loaded(checkpoint, trust=True), ServedPolicy)


def test_requests_need_not_contain_observations_seen_only_by_critics(tmp_path):
    env = "rlrun.toys:DictCartPole"
    for number, core in enumerate(({}, {"core": "gru", "core_width": 4})):
        checkpoint = saved(tmp_path / f"{number}", env, model={"hiddens": [8], "actor_sees": ["position"], **core})
        policy = loaded(checkpoint)
        assert list(policy.schema()["observation_space"]["spaces"]) == ["position"]
        with Training.restore(checkpoint) as training:
            acting = training.acting.policy()
            whole = {"position": np.array([0.1, -0.2], np.float32), "velocity": np.array([3.0, -2.0], np.float32)}
            expected = acting.act(whole, episode_start=True)
            assert acting.act({"position": whole["position"]}, episode_start=True) == expected
        with serving(policy) as server:
            asked = {"observation": {"position": [0.1, -0.2]}, "details": True}
            _, answer = ask(server, "/session" if core else "/act", asked)
            assert answer["action"] == expected
            assert "state_value" not in answer["details"]


def test_a_dense_policy_is_served_without_importing_torch_or_ray(dense, tmp_path):
    (tmp_path / "policy").write_bytes(pickle.dumps(load_policy(dense, dense.parent, False, "", None)))
    code = """
import pickle, sys
import rlrun.cli.serve, rlrun.deploy.serving.policy_app, rlrun.deploy.serving.reloading, rlrun.engine.web.web_server
from rlrun.deploy.serving.decisions import Asked, Decisions
import numpy as np
served = pickle.load(open(sys.argv[1], "rb"))
Decisions(served, None).decide([Asked(np.zeros((1, 4), np.float32), 1, details=True)])
assert not {"torch", "ray"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "policy"], check=True, timeout=120)


def test_loading_a_missing_policy_raises_an_error_with_the_reason():
    with pytest.raises(RlrunError, match="does not exist"):
        load_policy(Path("nowhere"), Path("runs"), False, "", None)
