"""A self-signed TLS certificate for 127.0.0.1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def self_made(folder: Path) -> dict[str, str]:
    """Creates a certificate and its key with openssl; returns their files as `cert` and `key`."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    about = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1", "-nodes"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made = ["openssl", "req", "-x509", *curve, "-keyout", key, "-out", cert, *about]
    try:
        subprocess.run(made, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return {"cert": cert, "key": key}
