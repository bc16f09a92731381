"""HTTP servers: who may send requests, how many, and how servers start and stop."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import select
import socket
import ssl
import threading
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.web.app import PostedObjects, guarded_app, json_object
from rlrun.engine.web.connections import CONNECTION, Connections
from rlrun.engine.web.guard import Guard, Rates
from rlrun.engine.web.listening import Listening, read_token
from rlrun.engine.web.web_server import WebServer
from tests.certificate import self_made
from tests.unit.engine.web.asking import ask

TOKEN = "0123456789abcdef"
FAILED = {"error": "server_failed", "message": "internal server error; the server's output has the traceback"}
TOO_LONG = {"error": "too_long", "message": "the request is larger than 100 bytes"}


async def echo(request: Any) -> JSONResponse:
    return JSONResponse(await json_object(request))


async def fail(request: Any) -> JSONResponse:
    raise RuntimeError("a mistake of the server")


@contextmanager
def serving(**listening: Any) -> Any:
    listens = Listening(**listening)
    routes = [
        Route("/echo", echo, methods=["POST"]),
        Route("/fail", fail),
        Route("/health", lambda _: JSONResponse({"status": "ok"})),
    ]
    with WebServer(guarded_app(routes, listens, frozenset({"/health"})), listens) as server:
        yield server


def test_a_server_answers_with_json_on_a_free_port_and_stops_its_thread_silently(caplog, capfd):
    with caplog.at_level(logging.DEBUG), serving() as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert ask(server, "/echo", '{"a": [1, 2.5]}') == (200, {"a": [1, 2.5]})
    assert "web-server" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectionRefusedError):
        ask(server, "/health")
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
    assert capfd.readouterr() == ("", "")


def test_a_server_that_never_started_frees_its_port():
    server = WebServer(guarded_app([], Listening()), Listening())
    server.stop()
    WebServer(guarded_app([], Listening()), Listening(port=server.port)).stop()


def test_a_body_that_is_not_a_json_object_is_refused_with_a_message():
    wrong = {
        '{"a": NaN}': "the request body is not JSON: it contains NaN",
        "[1]": "the request body is not a JSON object",
        "{": "the request body is not JSON: Expecting property name",
        b"\xff\xfe\x00": "the request body is not JSON: 'utf-8' codec",
        "[" * 100_000: "the request body is not JSON",
    }
    with serving() as server:
        for body, message in wrong.items():
            status, answer = ask(server, "/echo", body)
            assert status == 400
            assert answer["error"] == "bad_message"
            assert answer["message"].startswith(message)


def test_answers_are_sent_at_once_over_sockets_with_tcp_nodelay():
    async def option(request: Any) -> JSONResponse:
        accepted = request.scope["state"][CONNECTION]._socket
        return JSONResponse({"nodelay": accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)})

    listens = Listening()
    with WebServer(guarded_app([Route("/option", option)], listens), listens) as server:
        status, answer = ask(server, "/option")
    assert status == 200
    assert answer["nodelay"] != 0


def test_all_errors_are_json_and_internal_errors_log_a_traceback(caplog):
    with serving() as server:
        assert ask(server, "/nowhere") == (404, {"error": "not_found", "message": "Not Found"})
        assert ask(server, "/echo") == (405, {"error": "method_not_allowed", "message": "Method Not Allowed"})
        assert ask(server, "/fail") == (500, FAILED)
    assert "a mistake of the server" in caplog.text


def test_a_function_that_handles_posted_objects_answers_and_refuses_as_routes_do(caplog):
    async def answer(data: dict[str, Any]) -> dict[str, Any]:
        return {"kept": data["kept"]}

    listens = Listening(most_body_bytes=1000)
    with WebServer(Guard(PostedObjects(answer), listens, frozenset()), listens) as server:
        assert ask(server, "/", {"kept": ["é", 1.5]}) == (200, {"kept": ["é", 1.5]})
        assert ask(server, "/nowhere", {}) == (404, {"error": "not_found", "message": "Not Found"})
        assert ask(server, "/") == (405, {"error": "method_not_allowed", "message": "Method Not Allowed"})
        assert ask(server, "/", "[1]") == (
            400,
            {"error": "bad_message", "message": "the request body is not a JSON object"},
        )
        assert ask(server, "/", iter([b" " * 600, b" " * 600]))[0] == 413
        assert ask(server, "/", {}) == (500, FAILED)
    assert "KeyError: 'kept'" in caplog.text


def test_requests_without_the_token_are_refused_except_on_open_paths():
    with serving(token=TOKEN) as server:
        for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN[:-1]}"}):
            status, answer = ask(server, "/echo", "{}", **wrong)
            assert status == 401
            assert answer["error"] == "token_wrong"
            assert "Authorization: Bearer TOKEN" in answer["message"]
        assert ask(server, "/echo", "{}", Authorization=f"Bearer {TOKEN}") == (200, {})
        assert ask(server, "/health") == (200, {"status": "ok"})


def test_without_a_token_requests_from_other_web_origins_are_refused(wording):
    with serving() as server:
        own = f"localhost:{server.port}"
        assert ask(server, "/echo", "{}", Host=own, Origin=f"http://{own}") == (200, {})
        assert ask(server, "/echo", "{}", Origin="https://elsewhere.example")[0] == 403
        assert ask(server, "/echo", "{}", Origin="null")[0] == 403
        status, answer = ask(server, "/echo", "{}", Host=f"rebound.example:{server.port}")
        assert (status, answer["error"]) == (403, "host_refused")
        assert answer["message"] == wording("Host", "Origin")


def test_bodies_above_the_limit_are_refused_with_and_without_a_stated_length():
    with serving(most_body_bytes=100) as server:
        assert ask(server, "/echo", json.dumps({"a": "b" * 80}))[0] == 200
        assert ask(server, "/echo", "b" * 101) == (413, TOO_LONG)
        assert ask(server, "/echo", iter([b"b" * 60, b"b" * 60])) == (413, TOO_LONG)


def test_an_address_with_too_many_requests_is_refused_without_affecting_other_addresses():
    rates = Rates(2.0)
    assert [rates.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert rates.take("b", 0.0)
    assert [rates.take("a", 0.5), rates.take("a", 0.5)] == [True, False]
    with serving(most_requests_per_s=1e-9) as server:
        assert ask(server, "/health")[0] == 200
        assert ask(server, "/health")[0] == 429


def test_request_rates_are_remembered_for_at_most_1000_addresses():
    rates = Rates(1.0)
    for address in range(2_000):
        assert rates.take(str(address), 0.0)
    assert len(rates._buckets) == 1_000


def silent(server: Any, number: int, sent: bytes = b"") -> list[socket.socket]:
    """Connections that send no complete header."""
    opened = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(number)]
    for connection in opened:
        connection.sendall(sent)
    return opened


def is_open(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)  # the end of the stream counts as readable
    return not readable


def test_clients_with_the_token_are_answered_while_silent_connections_stay_open():
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with serving(token=TOKEN, most_connections=160, header_s=600.0) as server, ExitStack() as opened:
        attack = [opened.enter_context(closing(each)) for each in silent(server, 120, b"POST /echo HTTP/1.1\r\nHost: ")]
        clients = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(64)]
        for client in clients:
            client.connect()
            opened.enter_context(closing(client))
        for number in range(3):
            for client in clients:
                client.request("POST", "/echo", json.dumps({"number": number}), bearer)
            assert [json.load(client.getresponse()) for client in clients] == [{"number": number}] * 64
            attack += [opened.enter_context(closing(each)) for each in silent(server, 30)]
            assert ask(server, "/health") == (200, {"status": "ok"})
        assert 1 <= sum(map(is_open, attack)) <= 80


def test_one_connection_is_reserved_for_the_health_check(wording):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with serving(token=TOKEN, most_connections=4) as server, ExitStack() as opened:
        for _ in range(3):
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            opened.enter_context(closing(client))
            client.request("POST", "/echo", "{}", bearer)
            assert client.getresponse().read() == b"{}"
        status, answer = ask(server, "/echo", "{}", **bearer)
        assert (status, answer) == (503, {"error": "busy", "message": wording()})
        assert ask(server, "/health") == (200, {"status": "ok"})
        client.close()
        while ask(server, "/echo", "{}", **bearer)[0] == 503:  # until the server has noticed that the client left
            pass


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_connection_without_a_complete_header_is_closed_in_time(sent):
    with serving(header_s=0.05) as server:
        (waiting,) = silent(server, 1, sent)
        with waiting:
            assert waiting.recv(1) == b""


def test_a_connection_with_a_complete_header_has_no_time_limit_and_gives_way_only_to_newer_ones():
    async def alive() -> list[list[bool]]:
        connections = Connections(most=4, header_s=0.0)
        pairs = [socket.socketpair() for _ in range(4)]
        with ExitStack() as opened:
            ours, theirs = zip(*pairs, strict=True)
            for each in (*ours, *theirs):
                opened.enter_context(closing(each))
            states = []
            first, second = connections.add(ours[0]), connections.add(ours[1])
            first.take_header()
            while is_open(theirs[1]):
                await asyncio.sleep(0)
            states.append([is_open(each) for each in theirs])
            assert second.admit()
            assert first.admit()
            for each in ours[2:]:
                connections.add(each).take_header()
            states.append([is_open(each) for each in theirs])
            return states

    assert asyncio.run(alive()) == [[True, False, True, True], [True, False, True, True]]


def test_anonymous_connections_get_half_of_the_slots_and_the_reserved_last_slot():
    async def alive() -> tuple[list[bool], list[bool]]:
        connections = Connections(most=4, header_s=600.0)
        with ExitStack() as opened:
            theirs = []

            def added() -> Any:
                our, their = socket.socketpair()
                theirs.append(opened.enter_context(closing(their)))
                return connections.add(opened.enter_context(closing(our)))

            made = [added() for _ in range(3)]
            early = [is_open(each) for each in theirs]
            assert made[1].admit()
            made.append(added())
            assert [each.admit() for each in made[1:]] == [True, True, True]
            assert not added().admit()
            added()
            return early, [is_open(each) for each in theirs]

    assert asyncio.run(alive()) == ([False, True, True], [False, True, True, True, False, True])


def test_silent_connections_do_not_block_clients_of_a_tls_server(tmp_path, caplog):
    made = self_made(tmp_path)
    trusting = ssl.create_default_context(cafile=made["cert"])
    with serving(most_connections=8, header_s=600.0, **made) as server, ExitStack() as opened:
        for sent in (b"", b"\x16\x03\x01", b"no TLS at all"):
            for each in silent(server, 4, sent):
                opened.enter_context(closing(each))
        for _ in range(3):
            client = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=trusting)
            opened.enter_context(closing(client))
            client.request("POST", "/echo", "{}")
            assert client.getresponse().status == 200
    assert caplog.text == ""


def test_a_server_reachable_from_other_machines_requires_a_token_and_warns_if_it_has_no_tls(wording):
    with wording.raised(UsageError, "0.0.0.0"):
        Listening(host="0.0.0.0")
    assert "unencrypted" in Listening(host="0.0.0.0", token=TOKEN).warning
    assert Listening(host="0.0.0.0", token=TOKEN, cert="cert.pem").warning == ""
    assert Listening(host="::1").warning == ""
    assert TOKEN not in repr(Listening(token=TOKEN))


def test_a_token_is_read_from_a_file_or_from_the_environment(tmp_path, monkeypatch, wording):
    monkeypatch.delenv("RLRUN_TOKEN", raising=False)
    assert read_token() is None
    monkeypatch.setenv("RLRUN_TOKEN", TOKEN)
    assert read_token() == TOKEN
    file = tmp_path / "token"
    file.write_text(f"{TOKEN[::-1]}\n")
    assert read_token(file) == TOKEN[::-1]
    file.write_text("short")
    with wording.raised(UsageError, "16") as refused:
        read_token(file)
    assert "short" not in str(refused.value).replace(str(file), "")
    with pytest.raises(UsageError, match="cannot read"):
        read_token(tmp_path / "none")


def test_ports_in_use_and_unusable_certificates_are_refused(tmp_path, wording):
    with serving() as server, wording.raised(UsageError, port=server.port):
        WebServer(guarded_app([], Listening()), Listening(port=server.port))
    (tmp_path / "cert.pem").write_text("no certificate")
    unusable = Listening(cert=str(tmp_path / "cert.pem"))
    with wording.raised(UsageError, "cert.pem"):
        WebServer(guarded_app([], unusable), unusable)


def test_a_server_with_a_certificate_answers_over_tls(tmp_path):
    made = self_made(tmp_path)
    with serving(**made) as server:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=made["cert"])
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=trusting)
        connection.request("POST", "/echo", "{}")
        assert connection.getresponse().status == 200
        connection.close()
