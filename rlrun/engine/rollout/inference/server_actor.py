"""Inference server of a trial in a Ray actor, which is restarted if it dies."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from rlrun.engine.actors.supervised_actors import SupervisedActors
from rlrun.engine.rollout.inference.server import InferenceServer

if TYPE_CHECKING:
    from rlrun.engine.nn.acting import ActingNetwork
    from rlrun.engine.rollout.worker import Orders

SERVER = 0
"""Index of the server among its supervised actors."""

_NO_PARAMETERS = np.zeros(0, np.float32)


@dataclass(frozen=True)
class ServedPolicies:
    """Settings of an inference server.

    Attributes:
        networks: Networks of each policy by the policy's name; the first one chooses actions.
        groups: Number of groups into which each worker's envs are divided.
        max_batch: Maximum number of rows in a forward pass; None for no limit.
        num_cpus: CPUs that Ray reserves for the server.
        num_gpus: GPUs that Ray reserves for the server; if above 0, the server runs on CUDA.
    """

    networks: Mapping[str, Sequence[ActingNetwork]]
    groups: int
    max_batch: int | None
    num_cpus: float
    num_gpus: float

    @override
    def __str__(self) -> str:
        device = f"{self.num_gpus:g} GPU" if self.num_gpus else f"{self.num_cpus:g} CPU"
        return f"server on {device}, {self.groups} group{'s' if self.groups > 1 else ''} per worker"


class ServerActor:
    """Inference server in a Ray actor, which is restarted with the newest weights if it dies.

    Workers then repeat their requests, with their recurrent states, so that no step is lost.

    Args:
        policies: The networks and the settings of the server.
        num_workers: Number of rollout workers.
        by_round: Whether the server answers in rounds of all workers, for synchronous rollouts.
        timeout_s: Seconds within which the server must start.
        max_restarts: Maximum number of restarts of the server.

    Attributes:
        name: Name that the workers use to find the actor.
        actors: Supervisor whose only actor is the server.
    """

    def __init__(
        self, policies: ServedPolicies, num_workers: int, *, by_round: bool, timeout_s: float, max_restarts: int
    ) -> None:
        self.name = f"inference server {secrets.token_hex(8)}"
        make = partial(
            InferenceServer,
            policies.networks,
            num_workers,
            by_round=by_round,
            max_batch=policies.max_batch,
            device="cuda" if policies.num_gpus else "cpu",
        )
        self.actors = SupervisedActors(
            lambda _: make,
            (SERVER,),
            what="inference server",
            num_cpus=policies.num_cpus,
            num_gpus=policies.num_gpus,
            timeout_s=timeout_s,
            max_restarts=max_restarts,
            max_concurrency=num_workers * policies.groups + 8,  # requests and `watch` wait inside the actor's calls
            name=self.name,
        )
        self.actors.ask(SERVER, "watch").allowed_s = math.inf  # answered only if the server dies
        self._number = 0
        self._told: tuple[Orders, Orders] | None = None

    def follow(self, orders: Orders) -> Orders:
        """Sends new weights to the server; returns the part of the message that workers need, without parameters."""
        if self._told is None or self._told[0] is not orders:  # all workers get the same object, which is sent once
            weights = {
                policy: dataclasses.replace(own, acting=_NO_PARAMETERS) for policy, own in orders.weights.items()
            }
            self._told = orders, dataclasses.replace(orders, weights=weights)
            self._number += 1
            self.actors.tell("follow", (self._number, orders), about=orders.about)
        return self._told[1]
