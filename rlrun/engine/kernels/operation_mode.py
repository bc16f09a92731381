"""Base class of torch modes that see each operation of a function while it runs."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override


class OperationMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base class of torch modes with `__torch_dispatch__`; it avoids importing torch's compiler."""

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from wrapping `__torch_dispatch__`, which would import its compiler and take seconds."""
        return False
