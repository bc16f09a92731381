"""HTTP servers: who may ask, how much, and how they start and stop."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from rlrun.errors import UsageError
from rlrun.web.app import PostedObjects, guarded_app, json_object
from rlrun.web.guard import Guard, Rates
from rlrun.web.listening import Listening, read_token
from rlrun.web.web_server import WebServer
from tests.unit.web.asking import ask

TOKEN = "0123456789abcdef"


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


def test_a_server_answers_json_on_a_free_port_and_stops_with_its_thread_and_without_a_word(caplog, capfd):
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


def test_a_body_that_is_no_json_object_is_refused_by_a_message():
    wrong = {
        '{"a": NaN}': "the request's body is no JSON: it holds NaN",
        "[1]": "the request's body is no JSON object",
        "{": "the request's body is no JSON: Expecting property name",
        b"\xff\xfe\x00": "the request's body is no JSON",
        "[" * 100_000: "the request's body is no JSON",
    }
    with serving() as server:
        for body, message in wrong.items():
            status, answer = ask(server, "/echo", body)
            assert status == 400
            assert answer["error"].startswith(message)


def test_the_parts_of_an_answer_do_not_wait_for_acknowledgements():
    server = WebServer(guarded_app([], Listening()), Listening())
    assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    server.stop()


def test_errors_of_all_kinds_are_json_and_those_of_the_server_log_their_traceback(caplog):
    with serving() as server:
        assert ask(server, "/nowhere") == (404, {"error": "Not Found"})
        assert ask(server, "/echo") == (405, {"error": "Method Not Allowed"})
        assert ask(server, "/fail") == (500, {"error": "the server failed; its own output has the traceback"})
    assert "a mistake of the server" in caplog.text


def test_a_function_of_posted_objects_answers_and_refuses_as_routes_do(caplog):
    async def answer(data: dict[str, Any]) -> dict[str, Any]:
        return {"kept": data["kept"]}

    listens = Listening(most_body_bytes=1000)
    with WebServer(Guard(PostedObjects(answer), listens, frozenset()), listens) as server:
        assert ask(server, "/", {"kept": ["é", 1.5]}) == (200, {"kept": ["é", 1.5]})
        assert ask(server, "/nowhere", {}) == (404, {"error": "Not Found"})
        assert ask(server, "/") == (405, {"error": "Method Not Allowed"})
        assert ask(server, "/", "[1]") == (400, {"error": "the request's body is no JSON object"})
        assert ask(server, "/", iter([b" " * 600, b" " * 600]))[0] == 413
        assert ask(server, "/", {}) == (500, {"error": "the server failed; its own output has the traceback"})
    assert "KeyError: 'kept'" in caplog.text


def test_requests_without_the_token_are_refused_except_at_open_paths():
    with serving(token=TOKEN) as server:
        for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN[:-1]}"}):
            status, answer = ask(server, "/echo", "{}", **wrong)
            assert status == 401
            assert "Authorization: Bearer TOKEN" in answer["error"]
        assert ask(server, "/echo", "{}", Authorization=f"Bearer {TOKEN}") == (200, {})
        assert ask(server, "/health") == (200, {"status": "ok"})


def test_without_a_token_pages_of_other_sites_cannot_ask_through_the_users_browser():
    with serving() as server:
        own = f"localhost:{server.port}"
        assert ask(server, "/echo", "{}", Host=own, Origin=f"http://{own}") == (200, {})
        assert ask(server, "/echo", "{}", Origin="https://elsewhere.example")[0] == 403
        assert ask(server, "/echo", "{}", Origin="null")[0] == 403
        assert ask(server, "/echo", "{}", Host=f"rebound.example:{server.port}")[0] == 403


def test_bodies_above_the_limit_are_refused_with_and_without_a_stated_length():
    with serving(most_body_bytes=100) as server:
        assert ask(server, "/echo", json.dumps({"a": "b" * 80}))[0] == 200
        assert ask(server, "/echo", "b" * 101) == (413, {"error": "the request is longer than 100 bytes"})
        assert ask(server, "/echo", iter([b"b" * 60, b"b" * 60])) == (
            413,
            {"error": "the request is longer than 100 bytes"},
        )


def test_an_address_that_asks_too_often_is_refused_and_others_are_not():
    rates = Rates(2.0)
    assert [rates.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert rates.take("b", 0.0)
    assert [rates.take("a", 0.5), rates.take("a", 0.5)] == [True, False]
    with serving(most_requests_per_s=1e-9) as server:
        assert ask(server, "/health")[0] == 200
        assert ask(server, "/health")[0] == 429


def test_the_rates_of_a_thousand_addresses_are_kept_and_no_more():
    rates = Rates(1.0)
    for address in range(2_000):
        assert rates.take(str(address), 0.0)
    assert len(rates._buckets) == 1_000


def test_a_server_for_other_machines_demands_a_token_and_warns_without_tls():
    with pytest.raises(UsageError, match=r"other machines reach a server on 0\.0\.0\.0, so it takes a token"):
        Listening(host="0.0.0.0")
    assert "unencrypted" in Listening(host="0.0.0.0", token=TOKEN).warning
    assert Listening(host="0.0.0.0", token=TOKEN, cert="cert.pem").warning == ""
    assert Listening(host="::1").warning == ""
    assert TOKEN not in repr(Listening(token=TOKEN))


def test_a_token_comes_from_a_file_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("RLRUN_TOKEN", raising=False)
    assert read_token() is None
    monkeypatch.setenv("RLRUN_TOKEN", TOKEN)
    assert read_token() == TOKEN
    file = tmp_path / "token"
    file.write_text(f"{TOKEN[::-1]}\n")
    assert read_token(file) == TOKEN[::-1]
    file.write_text("short")
    with pytest.raises(UsageError, match="holds no token of at least 16 ASCII characters") as refused:
        read_token(file)
    assert "short" not in str(refused.value).replace(str(file), "")
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(tmp_path / "none")


def test_taken_ports_and_unusable_certificates_are_told(tmp_path):
    with serving() as server, pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1, port {server.port}"):
        WebServer(guarded_app([], Listening()), Listening(port=server.port))
    (tmp_path / "cert.pem").write_text("no certificate")
    unusable = Listening(cert=str(tmp_path / "cert.pem"))
    with pytest.raises(UsageError, match=r"TLS with certificate .*cert\.pem and key None"):
        WebServer(guarded_app([], unusable), unusable)


def test_a_server_with_a_certificate_answers_over_tls(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    about = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1", "-nodes"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made = ["openssl", "req", "-x509", *curve, "-keyout", key, "-out", cert, *about]
    try:
        subprocess.run(made, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    with serving(cert=cert, key=key) as server:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=cert)
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=trusting)
        connection.request("POST", "/echo", "{}")
        assert connection.getresponse().status == 200
        connection.close()
