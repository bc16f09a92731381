"""HTTP servers of rlrun: addresses, tokens, limits, and JSON bodies (starlette and uvicorn, the `serve` extra)."""
