"""Example 7: a saved policy as a deployment of Ray Serve, which has a queue, replicas and batches.

    pip install 'ray[serve]'
    python examples/ray_serve.py runs/cartpole-ppo/000-seed=0/checkpoints/iteration_000050
    curl http://127.0.0.1:8000/ -d '{"observation": [0.01, 0.0, 0.03, 0.0]}'

Each replica restores the checkpoint once. Policies with memory need `Decisions` with sessions, one process each: see
`rlrun serve`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rlrun import Training
from rlrun.plugin import Asked, Decisions, ServedPolicy, SpaceMismatch, batch_from_json


class Policy:
    """Replica of a saved policy.

    Args:
        checkpoint: Directory of the checkpoint.
    """

    def __init__(self, checkpoint: str) -> None:
        with Training.restore(checkpoint, eager=True, for_training=False) as training:
            self.decisions = Decisions(ServedPolicy.of(training, Path(checkpoint)), draws=None)

    async def __call__(self, request: Request) -> Response:
        """Answers the actions for a list of observations, or for one."""
        data: dict[str, Any] = await request.json()
        rows = data.get("observations") or [data.get("observation")]
        try:
            batch = batch_from_json(self.decisions.served.spaces.observation, rows)
        except SpaceMismatch as error:
            return JSONResponse({"error": "bad_message", "message": str(error)}, 400)
        return JSONResponse(self.decisions.decide([Asked(batch, len(rows))])[0])


if __name__ == "__main__":
    deployment: Any = serve.deployment(num_replicas=2)(Policy)
    serve.run(deployment.bind(str(Path(sys.argv[1]).resolve())), blocking=True)
