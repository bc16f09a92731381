"""Sum of tensors over several learner processes (all-reduce by torch.distributed)."""

from __future__ import annotations

import socket
import sys
from contextlib import closing
from datetime import timedelta
from typing import Any, Literal

from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, TCPStore

from rlrun.engine.messages.errors import TrainingFailed

Backend = Literal["gloo", "nccl"]


class PeerLost(TrainingFailed):
    """Error raised if another process of the group died or did not answer in time."""


class AllReduce:
    """Member of a group of processes that sum tensors; calling the object returns the sum over all members.

    All members must make the same sequence of calls, with equal shapes. All members receive bit-identical results: each
    part of the sum is computed by one member and sent to the others. Sums are deterministic for a given world size.

    A group forms in two steps: any process opens a port, and all members join at its address::

        meeting = AllReduce(0, 2)
        address = meeting.offer()           # in one process, which keeps `meeting` as long as the group is used
        AllReduce(rank, 2).join(address)    # in each member's own process, at the same time

    Args:
        rank: Rank of this member, from 0.
        world_size: Number of members.
        backend: `gloo`, which sums on the CPU, or `nccl`, which needs one CUDA device per member.
        timeout_s: Timeout in seconds of the rendezvous and of each all-reduce.

    Attributes:
        rank: Rank of this member, from 0.
        world_size: Number of members.
    """

    def __init__(self, rank: int, world_size: int, *, backend: Backend = "gloo", timeout_s: float = 300.0) -> None:
        self.rank = rank
        self.world_size = world_size
        self._backend = backend
        self._timeout_s = timeout_s
        self._offered: tuple[str, int] | None = None
        self._store: TCPStore | None = None
        self._group: Any = None

    def offer(self) -> tuple[str, int]:
        """Opens a free port of this machine at which the members of the group meet.

        The port is open on the address of this Ray node, or on the loopback address without Ray.

        Returns:
            Address and port, which all members pass to `join`.
        """
        self.close()
        host = node_address()
        listening = socket.create_server((host, 0))
        port = listening.getsockname()[1]
        self._store = TCPStore(
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=self._timeout_s),
            master_listen_fd=listening.detach(),  # already bound: torch would listen on every interface
        )
        self._offered = host, port
        return host, port

    def join(self, address: tuple[str, int]) -> None:
        """Joins the group of processes; blocks until all members have joined.

        Args:
            address: Result of `offer`, called in any process.

        Raises:
            PeerLost: Not all members joined in time.
        """
        host, port = address
        timeout = timedelta(seconds=self._timeout_s)
        self._group = None
        try:
            if self.rank > 0 or self._store is None:  # otherwise this process has opened the port
                self._store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timeout)
            self._group = self._made_group(PrefixStore("all-reduce", self._store), local_address(host), timeout)
        except RuntimeError as error:
            self.close()
            raise PeerLost(
                f"not all of the {self.world_size} learner processes connected to {host}:{port} within "
                f"{self._timeout_s:g} s ({first_line(error)})"
            ) from error

    def _made_group(self, store: PrefixStore, own_host: str, timeout: timedelta) -> Any:
        if self._backend == "nccl":
            from torch._C._distributed_c10d import ProcessGroupNCCL

            settings = ProcessGroupNCCL.Options()
            settings._timeout = timeout
            return ProcessGroupNCCL(store, self.rank, self.world_size, settings)
        gloo: Any = ProcessGroupGloo  # torch's stubs omit its options
        options = gloo._Options()
        # By default gloo resolves the machine's name, which on many machines gives a loopback address.
        options._devices = [gloo.create_device(hostname=own_host)]
        options._timeout = timeout
        return gloo(store, self.rank, self.world_size, options)

    def __call__(self, tensor: Tensor) -> Tensor:
        """All-reduce: sums a tensor over all members in place, and returns the tensor.

        Raises:
            PeerLost: Another member has died or timed out.
        """
        if self._group is None:
            raise PeerLost("this process has lost the connection to the other learner processes")
        # NCCL sums on the GPU, and gloo on the CPU; a tensor that is already there is not copied.
        own = tensor.cuda() if self._backend == "nccl" else tensor.cpu()
        try:
            self._group.allreduce([own]).wait()
        except RuntimeError as error:
            self.close()  # so that members waiting for this process fail at once
            raise PeerLost(
                f"learner process {self.rank} of {self.world_size} lost another one, or waited "
                f"{self._timeout_s:g} s for it ({first_line(error)})"
            ) from error
        return tensor if own is tensor else tensor.copy_(own)

    def close(self) -> None:
        """Leaves the group, and closes a port opened by `offer`; the other members' next all-reduce then fails."""
        self._group = self._store = self._offered = None


def node_address() -> str:
    """Returns the IP address of this Ray node; the loopback address without Ray."""
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized():
            return str(ray.util.get_node_ip_address())
    return "127.0.0.1"


def local_address(towards: str) -> str:
    """Returns the IP address of this machine on the route to another machine, determined without sending packets."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect((towards, 1))
        return str(probe.getsockname()[0])


def first_line(error: Exception) -> str:
    """Returns the first line of an exception's message, without torch's C++ backtrace."""
    return str(error).strip().partition("\n")[0]
