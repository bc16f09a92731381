"""Acting networks in C kernels: NumPy calls are recorded once per number of env slots, then run as C functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.tree import leaves
from rlrun.engine.kernels.library import required_library
from rlrun.engine.kernels.recorded import KernelFunction
from rlrun.engine.kernels.steps import NoKernel
from rlrun.engine.nn.acting import ActingNetwork, Heads, WrappedNetwork

Floats = NDArray[np.float32]


class KernelNetwork(WrappedNetwork):
    """Runs an acting network in C kernels, or in NumPy if the network uses an operation without a kernel.

    Each call overwrites the outputs of the previous one.

    Args:
        network: The NumPy network to run; it must load its parameters into the same memory each time.
    """

    def __init__(self, network: ActingNetwork) -> None:
        super().__init__(network)
        self._functions: dict[Any, KernelFunction | None] = {}

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Forward pass of one env step; see `ActingNetwork`.

        Raises:
            CompilerMissing: The kernels cannot be used on this machine.
        """
        seen = inputs["obs"]
        given = [seen] if seen.__class__ is np.ndarray and (*inputs,) == ("obs",) else leaves(inputs)
        key = given[0].shape[0], noise is None
        if key not in self._functions:
            self._functions[key] = self._recorded(inputs, state, noise)
        function = self._functions[key]
        if function is None or episode_starts is not None:
            return self.network(inputs, state, episode_starts, noise)
        if state is not None:
            given += [state]
        if noise is not None:
            given += [noise]
        heads, after = function(*given)
        return heads, None if after is None else after.copy()  # the state is kept for the next step

    @property
    def outside_kernels(self) -> str:
        """Reason why outputs depend on the processor; "" if C kernels compute all outputs without BLAS."""
        functions = self._functions.values()
        if not functions:
            return "a network has not acted yet"
        if None in functions:
            return "a network that acts has an operation without a C kernel"
        if any(function is not None and function.uses_blas for function in functions):
            return "a network that acts needs a product so large that the BLAS computes it"
        return ""

    def _recorded(self, inputs: Mapping[str, Any], state: Floats | None, noise: Floats | None) -> KernelFunction | None:
        given = [each for each in (state, noise) if each is not None]

        def forward(inputs: Any, *others: Any) -> Any:
            own_state = None if state is None else others[0]
            return self.network(inputs, own_state, None, None if noise is None else others[-1])

        required_library("the policy of this run acts", "acts")
        try:
            return KernelFunction(forward, inputs, *given)
        except (NoKernel, AttributeError, TypeError):  # recorded arrays lack most methods of NumPy arrays
            return None

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return KernelNetwork, (self.network,)
