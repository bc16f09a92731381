"""Serving of saved policies over HTTP (starlette and uvicorn, the `serve` extra)."""
