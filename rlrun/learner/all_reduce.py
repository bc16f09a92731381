"""Adds up a tensor over several processes that learn together (torch.distributed)."""

from __future__ import annotations

import socket
import sys
from contextlib import closing
from datetime import timedelta
from typing import Any, Literal

from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, TCPStore

from rlrun.errors import TrainingFailed

Backend = Literal["gloo", "nccl"]


class PeerLost(TrainingFailed):
    """A process of those that learn together has died, or did not come or answer in time."""


class AllReduce:
    """One member of a group of processes; called with a tensor, it returns the sum over all of them.

    Every member has to call it equally often, with tensors of one shape. All receive the same bits: each part of the
    sum is made by one member and handed on. The sum is also the same from run to run for the same number of members.

    A group comes together in two steps, since somebody, a member or not, has to say where all find each other first::

        meeting = AllReduce(0, 2)
        address = meeting.offer()           # in one process, which keeps `meeting` as long as they add up
        AllReduce(rank, 2).join(address)    # in each member's own process, at the same time

    Args:
        rank: This member's number, from 0.
        world_size: How many members there are.
        backend: `gloo`, which goes through the CPU, or `nccl`, which needs a CUDA device for each member alone.
        timeout_s: Seconds after which the others are given up, at the meeting and in each sum.

    Attributes:
        rank: This member's number, from 0.
        world_size: How many members there are.
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
        """Opens a free port of this machine, where the members find each other.

        It listens on the address by which Ray's other nodes know this one, without Ray on the machine's own loop.

        Returns:
            Address and port, for everyone's `join`.
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
            master_listen_fd=listening.detach(),  # bound before: torch would listen on every interface
        )
        self._offered = host, port
        return host, port

    def join(self, address: tuple[str, int]) -> None:
        """Meets the others, which have to join at the same time.

        Args:
            address: What the first member's `offer` returned, or that of a process which takes no part itself.

        Raises:
            PeerLost: They did not all come in time.
        """
        host, port = address
        timeout = timedelta(seconds=self._timeout_s)
        self._group = None
        try:
            if self.rank > 0 or self._store is None:  # a process that takes no part may have offered as well
                self._store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timeout)
            self._group = self._made_group(PrefixStore("all-reduce", self._store), own_address(host), timeout)
        except RuntimeError as error:
            self.close()
            raise PeerLost(
                f"not all of the {self.world_size} processes that learn together met at {host}:{port} within "
                f"{self._timeout_s:g} s ({first_line(error)})"
            ) from error

    def _made_group(self, store: PrefixStore, own_host: str, timeout: timedelta) -> Any:
        if self._backend == "nccl":
            from torch._C._distributed_c10d import ProcessGroupNCCL

            settings = ProcessGroupNCCL.Options()
            settings._timeout = timeout
            return ProcessGroupNCCL(store, self.rank, self.world_size, settings)
        gloo: Any = ProcessGroupGloo  # whose options torch does not declare
        options = gloo._Options()
        # By itself gloo takes what the machine's name resolves to, which on many is an address of its own loop.
        options._devices = [gloo.create_device(hostname=own_host)]
        options._timeout = timeout
        return gloo(store, self.rank, self.world_size, options)

    def __call__(self, tensor: Tensor) -> Tensor:
        """Adds a tensor up over all members, in place, and returns it.

        Raises:
            PeerLost: Another member has died, or did not take part in time.
        """
        if self._group is None:
            raise PeerLost("this process has lost those that it learned together with")
        # gloo sums in memory of the CPU; for a tensor that is there anyway, `cpu` costs nothing.
        own = tensor if self._backend == "nccl" else tensor.cpu()
        try:
            self._group.allreduce([own]).wait()
        except RuntimeError as error:
            self.close()  # so that the others hear of it, which may wait for this process
            raise PeerLost(
                f"process {self.rank} of the {self.world_size} that learn together lost another one, or waited "
                f"{self._timeout_s:g} s for it ({first_line(error)})"
            ) from error
        return tensor if own is tensor else tensor.copy_(own)

    def close(self) -> None:
        """Leaves the group, which fails the others' next sum, and closes the port that was offered."""
        self._group = self._store = self._offered = None


def node_address() -> str:
    """Returns the address by which Ray's other nodes reach this one; without Ray, that of the machine's own loop."""
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized():
            return str(ray.util.get_node_ip_address())
    return "127.0.0.1"


def own_address(towards: str) -> str:
    """Returns the address from which this machine reaches another one; nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect((towards, 1))
        return str(probe.getsockname()[0])


def first_line(error: Exception) -> str:
    """Returns the first line of an exception's text, without the addresses of code that torch adds."""
    return str(error).strip().partition("\n")[0]
