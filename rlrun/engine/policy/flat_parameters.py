"""All parameters of a torch module in one flat vector; the module itself only serves as a template (torch)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.engine.nn.parameter_slot import ParameterSlot


class FlatParameters:
    """Layout of a module's parameters in one flat vector (names, shapes, offsets), in the order of `named_parameters`.

    Args:
        module: The module.
    """

    def __init__(self, module: nn.Module) -> None:
        slots: list[ParameterSlot] = []
        offset = 0
        for name, parameter in module.named_parameters():
            slots.append(ParameterSlot(name, offset, tuple(parameter.shape)))
            offset += parameter.numel()
        self.slots = tuple(slots)
        self.size = offset
        self._by_name = {slot.name: slot for slot in slots}
        self._ranges: dict[str, tuple[int, int]] = {}

    def gather(self, module: nn.Module) -> Tensor:
        """Copies the module's parameters into a new flat float32 vector."""
        return torch.cat([parameter.detach().reshape(-1).float() for parameter in module.parameters()])

    def views(self, flat: Tensor, leaf: Tensor | None = None, start: int = 0) -> dict[str, Tensor]:
        """Splits a flat vector into parameters by name; gradients flow back to the vector.

        Args:
            flat: All parameters of the module in one vector.
            leaf: Vector that replaces the part of `flat` from offset `start` on, and must cover whole parameters; None
                for no replacement.
            start: Offset of `leaf` in the flat vector.
        """
        if leaf is None:
            return self._views(self.slots, flat)
        end = start + len(leaf)
        own = [slot for slot in self.slots if start <= slot.offset < end]
        if len(own) == len(self.slots):
            return self._views(self.slots, leaf)
        return {**self._views(self.slots, flat), **self._views(own, leaf)}

    def _views(self, slots: Sequence[ParameterSlot], flat: Tensor) -> dict[str, Tensor]:
        parts = torch.split(flat, [slot.size for slot in slots])
        return {slot.name: part.view(slot.shape) for slot, part in zip(slots, parts, strict=True)}

    def named(self, flat: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Splits a flat vector into a dict of parameters by name, for checkpoints."""
        return {slot.name: flat[slot.offset : slot.offset + slot.size].reshape(slot.shape) for slot in self.slots}

    def from_named(self, named: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Concatenates parameters, given as arrays by name, into one flat vector.

        Raises:
            ValueError: If names or shapes differ from the module's.
        """
        if unknown := ", ".join(name for name in named if name not in self._by_name):
            raise ValueError(f"unknown parameter {unknown}")
        for slot in self.slots:
            if slot.name not in named or tuple(named[slot.name].shape) != slot.shape:
                found = f"shape {tuple(named[slot.name].shape)}" if slot.name in named else "no such parameter"
                raise ValueError(
                    f"parameter {slot.name} has shape {slot.shape} in the network, but {found} in the loaded weights"
                )
        return np.concatenate([named[slot.name].ravel() for slot in self.slots]).astype(np.float32)

    def slot(self, name: str) -> ParameterSlot:
        """Returns the offset and shape of the named parameter in the flat vector.

        Raises:
            ValueError: If no parameter has that name.
        """
        if name not in self._by_name:
            raise ValueError(f"unknown parameter {name}; must be one of {', '.join(self._by_name)}")
        return self._by_name[name]

    def range_under(self, prefix: str) -> tuple[int, int]:
        """Returns the offset and size of the part of the flat vector whose parameters have the given name prefix.

        Raises:
            ValueError: If no parameter has the prefix, or the parameters are not contiguous.
        """
        found = self._ranges.get(prefix)
        if found is None:  # updates request the same ranges again and again
            found = self._ranges[prefix] = self._range_under(prefix)
        return found

    def _range_under(self, prefix: str) -> tuple[int, int]:
        slots = [slot for slot in self.slots if slot.name.startswith(prefix)]
        if not slots:
            raise ValueError(f"no parameter name starts with {prefix!r}")
        start, size = slots[0].offset, sum(slot.size for slot in slots)
        if slots[-1].offset + slots[-1].size != start + size:
            raise ValueError(f"the parameters with prefix {prefix!r} are not contiguous")
        return start, size

    def runs_of(self, pattern: str, start: int, size: int) -> list[tuple[int, bool]]:
        """Splits a range of the flat vector into runs of parameters; a pattern matches all names in a run, or none.

        Args:
            pattern: Regular expression that is searched for in the names.
            start: Offset of the range in the flat vector.
            size: Size of the range.

        Returns:
            The size of each run, and whether the names of its parameters match.
        """
        own = [slot for slot in self.slots if start <= slot.offset < start + size]
        runs = groupby(own, key=lambda slot: re.search(pattern, slot.name) is not None)
        return [(sum(slot.size for slot in slots), matches) for matches, slots in runs]

    def slots_of(self, prefix: str, start: int) -> dict[str, ParameterSlot]:
        """Returns the offset and shape of each of a network's parameters in a slice of the flat vector, by name.

        Args:
            prefix: Prefix of the network's parameter names in the module.
            start: Offset of the slice in the flat vector.
        """
        return {
            slot.name.removeprefix(prefix): replace(slot, offset=slot.offset - start)
            for slot in self.slots
            if slot.name.startswith(prefix)
        }
