"""Clients and servers of external envs die, lie, are slow and come back, and every step counts once."""

from __future__ import annotations

import ast
import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import rlrun.engine.external
from rlrun.cli.main import cli
from rlrun.engine.external.client import Client, EpisodeUnknown, Refused, ServerGone
from rlrun.engine.external.env_client import run
from tests.certificate import self_made
from tests.external_recording import recording

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(rlrun.engine.external.__file__).parent
pytestmark = pytest.mark.timeout(120)


def client_process(address: str, episodes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", ROOT / "tests/integration/external_client.py", FILES, address, str(episodes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def test_a_killed_clients_episode_is_truncated_and_other_clients_steps_are_recorded_exactly() -> None:
    with recording(2, 1, client_timeout_s=1.0) as (_, address, record):
        dies, lives = client_process(address, 0), client_process(address, 2)
        assert dies.stdout is not None

        def kill() -> None:
            assert dies.stdout is not None
            for _ in range(5):
                dies.stdout.readline()
            dies.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        ended: list[Any] = []
        steps = 0
        while len(ended) < 3:  # one episode of the killed client and two of the other
            recorded = record()
            ended += recorded.agent_episodes["default"]
            steps += recorded.env_steps
            batch = recorded.batches["default"]
            if (batch["truncateds"] & batch["valid"]).any():
                assert recorded.missing_finals == 1  # the client's last action was sent, but no observation followed
        killer.join()
        dies.wait()
        assert lives.wait() == 0
        for process in (dies, lives):
            assert process.stdout is not None
            process.stdout.close()
        lost = [own for own in ended if own.info["client_lost"]]
        assert [(own.episode_return, own.length) for own in ended if own not in lost] == [(3.0, 3), (3.0, 3)]
        (one,) = lost
        assert one.length >= 5
        assert one.episode_return in (one.length - 1, one.length - 2)  # a reward is sent with the next request
        assert steps == 6 + one.length


def test_a_client_waits_for_a_killed_server_and_restarts_its_episode() -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.integration.external_server", str(port)]
    first = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    client = Client(f"http://127.0.0.1:{port}", timeout_s=5.0, patience_s=60.0)
    episode = client.start_episode()
    assert client.get_action(episode, [0.0]) == 1
    first.kill()
    first.wait()
    second = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        with pytest.raises(EpisodeUnknown):
            client.get_action(episode, [1.0])  # waits until the second server is up
        episode = client.start_episode()
        assert client.get_action(episode, [0.0]) == 1
        client.end_episode(episode, [1.0])
    finally:
        client.close()
        second.kill()
        second.wait()


def test_an_http_error_reaches_the_client_with_its_code_and_message(wording) -> None:
    with recording(1, 1) as (_, address, _):
        client = Client(address)
        client._headers["Host"] = "elsewhere.example"
        with wording.raised(Refused, "Host", "Origin", "host_refused"):
            client.start_episode()
        client.close()


def posted(address: str, body: bytes | dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Posts a message on a new connection."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30.0)
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", "/", text, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def test_steps_of_a_client_that_repeats_and_garbles_requests_are_counted_exactly_once() -> None:
    told: list[str] = []

    def lie(address: str) -> None:
        _, hello = posted(address, {"verb": "hello", "protocol": "1.9"})
        _, begun = posted(address, {"verb": "start_episode", "client": hello["client"], "seq": 0})
        episode = begun["episode"]
        status, refused = posted(address, b'{"verb": "get_action", "observation": [NaN]}')
        assert (status, refused["error"]) == (400, "bad_message")
        assert "NaN" in refused["message"]
        for step in range(3):
            right = {"verb": "get_action", "episode": episode, "seq": step, "observation": [step], "reward": 1.0}
            lies = [{"observation": [0.0, 0.0]}, {"observation": ["x"]}, {"seq": step + 1}, {"reward": None}]
            told.extend(posted(address, {**right, **lie})[1]["error"] for lie in lies)
            assert posted(address, right) == posted(address, right)
        end = {"verb": "end_episode", "episode": episode, "seq": 0, "observation": [3.0], "reward": 1.0}
        assert posted(address, end) == posted(address, end) == (200, {})

    def dawdle(address: str) -> None:
        client = Client(address)
        episode = client.start_episode()
        for step in range(3):
            client.get_action(episode, [step])
            time.sleep(0.05)
        client.end_episode(episode, [3.0])
        client.close()

    with recording(2, 1, gather_ms=1.0) as (_, address, record):
        threads = [threading.Thread(target=play, args=(address,)) for play in (lie, dawdle)]
        for thread in threads:
            thread.start()
        ended: list[Any] = []
        while len(ended) < 2:
            recorded = record()
            ended += recorded.agent_episodes["default"]
        for thread in threads:
            thread.join()
    assert sorted((own.length, own.episode_return) for own in ended) == [(3, 0.0), (3, 4.0)]
    assert told == ["bad_observation", "bad_observation", "out_of_order", "bad_reward"] * 3


def test_a_client_without_the_token_is_refused(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setenv("RLRUN_TOKEN", "a-token-of-sixteen-letters")
    with recording(1, 1) as (_, address, _):
        with wording.raised(Refused, "token_wrong"):
            Client(address, token="another-token-of-letters")
        Client(address).close()  # reads the token from the variable


def test_over_tls_a_client_needs_the_certificate_and_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setenv("RLRUN_TOKEN", "a-token-of-sixteen-letters")
    files = self_made(tmp_path)
    with recording(1, 4, tls=files) as (_, address, record):
        assert address.startswith("https://")
        with wording.raised(Refused):
            Client(address)
        with pytest.raises(Refused, match="token_wrong"):
            Client(address, token="another-token-of-letters", cafile=files["cert"])
        client = Client(address, cafile=files["cert"])
        ends: list[Any] = []
        thread = threading.Thread(target=lambda: ends.append(play_one(client)))
        thread.start()
        batch = record().batches["default"]
        thread.join()
        client.close()
    assert batch["obs"][:3, 0, 0].tolist() == [1.0, 2.0, 3.0]
    assert batch["actions"][:2, 0].tolist() == ends[0]


def play_one(client: Client) -> list[int]:
    """Plays an episode of two steps, and returns its actions."""
    episode = client.start_episode()
    actions = [client.get_action(episode, [seen]) for seen in (1.0, 2.0)]
    client.end_episode(episode, [3.0])
    return actions


@pytest.mark.parametrize(("file", "packages"), [("client.py", set()), ("env_client.py", {"numpy"})])
def test_copyable_client_files_run_on_python_3_7_and_need_at_most_numpy(file: str, packages: set[str]) -> None:
    tree = ast.parse((FILES / file).read_text(), feature_version=(3, 7))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == packages
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr | ast.Match)]


def test_the_client_command_prints_the_client_files() -> None:
    runner = CliRunner()
    assert runner.invoke(cli, ["client", "--print"]).output == (FILES / "client.py").read_text()
    assert runner.invoke(cli, ["client", "--print", "wrapper"]).output == (FILES / "env_client.py").read_text()
    wrong = runner.invoke(cli, ["client", "--print", "wraper"])
    assert (wrong.exit_code, "wrapper" in wrong.output) == (2, True)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_javascript_client_plays_an_episode(tmp_path: Path) -> None:
    script = tmp_path / "play.js"
    script.write_text(
        (ROOT / "examples" / "warehouse" / "client.js").read_text()
        + """
        (async () => {
          const client = new Client(process.argv[2]);
          await client.hello();
          const episode = await client.startEpisode();
          for (const step of [0, 1, 2]) console.log(await client.getAction(episode, [step], step));
          await client.endEpisode(episode, [3], 3);
        })();
        """
    )
    with recording(1, 5) as (_, address, record):
        node = subprocess.Popen(["node", script, address], stdout=subprocess.PIPE, text=True)
        recorded = record()
        printed, _ = node.communicate(timeout=60)
    (ended,) = recorded.episodes
    batch = recorded.batches["default"]
    assert (ended.episode_return, ended.length) == (6.0, 3)
    assert [int(line) for line in printed.split()] == batch["actions"][batch["valid"]].tolist()


class Counts:
    """An env with 3 steps; observation and reward are the number of the step."""

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (0, 1, 2)
        self.step_number += 1
        return np.full(1, self.step_number, np.float32), float(self.step_number), False, self.step_number == 3, {}


def test_a_wrapped_gymnasium_env_plays_episodes_as_a_client() -> None:
    returns: list[float] = []
    with recording(1, 9) as (_, address, record):
        client = Client(address)
        thread = threading.Thread(target=lambda: returns.extend(run(Counts(), client, EpisodeUnknown, episodes=2)))
        thread.start()
        recorded = record()
        thread.join()
        client.close()
    assert returns == [own.episode_return for own in recorded.episodes] == [6.0, 6.0]
    batch = recorded.batches["default"]
    assert np.count_nonzero(batch["truncateds"] & batch["valid"]) == 2


def warehouse() -> Any:
    spec = spec_from_file_location("warehouse", ROOT / "examples/warehouse/warehouse.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_warehouse_env_trains_is_evaluated_by_its_clients_and_resumes_without_a_replay(
    tmp_path: Path, wording
) -> None:
    port = free_port()
    work = warehouse().work
    clients: list[Client] = []

    def robot(at: int, shifts: int) -> None:
        client = Client(f"http://127.0.0.1:{at}", patience_s=60.0)
        clients.append(client)
        with contextlib.suppress(ServerGone):
            work(client, EpisodeUnknown, seed=at, shifts=shifts)
        client.close()

    def rlrun(*words: str) -> Any:
        return CliRunner().invoke(cli, list(words), env={"RLRUN_RUNS": str(tmp_path)})

    spec = str(ROOT / "examples/warehouse/warehouse.yaml")
    settings = [f"env.external.port={port}", "stop={iteration: 1}", "config.train_batch_size=128"]
    settings += ["config.min_env_steps_per_iteration=0", "config.num_envs_per_worker=1", "config.num_epochs=1"]
    trains = threading.Thread(target=robot, args=(port, 0))
    trains.start()
    done = rlrun(
        "train", "-f", spec, "--name", "warehouse", "--executor", "local", *[w for s in settings for w in ("--set", s)]
    )
    assert done.exit_code == 0, done.output
    evaluates = threading.Thread(target=robot, args=(port + 1, 3))
    evaluates.start()
    found = rlrun("evaluate", "warehouse", "--port", str(port + 1), "--episodes", "3", "--json")
    evaluates.join()
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert (result["episodes"], result["lengths"]) == (3, [60, 60, 60])
    refused = rlrun("train", "-f", spec, "--set", "evaluation={every: 1}")
    assert (refused.exit_code, refused.output) == (2, wording("env.external"))
    resumed = rlrun("resume", "warehouse", "--extend", "iteration=2", "--executor", "local")
    assert resumed.exit_code == 0, resumed.output
    assert "1 of the envs could not be restored and had to start a new episode" in " ".join(resumed.output.split())
    for client in clients:
        client.close()
    trains.join()
