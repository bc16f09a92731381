"""HTTP servers of rlrun: where they listen, who may ask, and JSON bodies (starlette and uvicorn, the extra `serve`)."""
