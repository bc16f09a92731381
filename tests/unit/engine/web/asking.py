"""Requests to a test's server."""

from __future__ import annotations

import http.client
import json
from typing import Any


def ask(server: Any, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, Any]:
    """Sends a request, and returns the status and body of the answer.

    Args:
        server: The server.
        path: The path.
        body: Object for JSON, or text or bytes as they are; None for none.
        method: The method; "" for GET or, with a body, POST.
        headers: Further headers.
    """
    sent = json.dumps(body) if isinstance(body, dict) else body
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, sent, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.headers["content-type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()
