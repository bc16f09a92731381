"""Advantages in groups of episodes with the same start, for fragments of tensors on a device."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.groups.episode_groups import CUT_OFF, EPSILON, EQUAL_GROUPS, EpisodeGroups
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.flow.flow import Operator
from rlrun.engine.messages.errors import UsageError


class GroupsOnDevice(Operator):
    """Compares the episodes of each group on a device; see `EpisodeGroups`.

    Inputs are pairs (worker index, fragment [T, B]), where every G consecutive env slots hold the episodes of a group
    in their valid rows. Returns are compared on the device; the share of groups with equal returns is read once per
    iteration.
    """

    declared_metrics = (EQUAL_GROUPS,)

    def __init__(self, sibling: EpisodeGroups) -> None:
        self.sibling = sibling
        self._equal: list[Tensor] = []
        self._cut_off: list[Tensor] = []
        self._is_checked = self._has_warned = False

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the share of the groups since the last call whose returns were all equal.

        Warns once if an episode was truncated.
        """
        cut_off, self._cut_off = self._cut_off, []
        if not self._has_warned and any(map(bool, cut_off)):
            self._has_warned = True
            warnings.warn(CUT_OFF, stacklevel=2)
        equal, self._equal = self._equal, []
        return {EQUAL_GROUPS.name: float(torch.cat(equal).double().mean())} if equal else {}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> list[SampleBatch]:
        """Returns the fragment with advantages.

        Raises:
            UsageError: Env slots with equal seeds started in different states.
        """
        _, fragment = item
        size = self.sibling.group_size
        self._check(fragment, size)
        valid = fragment["valid"]
        discounts = self.sibling.gamma ** torch.arange(len(valid), dtype=torch.float64, device=valid.device)
        returns = (fragment["rewards"].double() * valid * discounts[:, None]).sum(0).view(-1, size)
        advantages = returns - returns.mean(1, keepdim=True)
        if self.sibling.leave_one_out:
            advantages = advantages * (size / (size - 1))
        else:
            advantages = advantages / (returns.std(1, correction=0, keepdim=True) + EPSILON)
        self._cut_off.append((fragment["truncateds"] & valid).any())
        self._equal.append(returns.amax(1) == returns.amin(1))
        spread = advantages.view(1, -1).float().expand(valid.shape).contiguous()
        return [SampleBatch(fragment, advantages=spread)]

    def _check(self, fragment: SampleBatch, size: int) -> None:
        """Raises a UsageError if the groups of the first fragment have different starts."""
        if self._is_checked:
            return
        self._is_checked = True
        for leaf in leaves(fragment["obs"]):
            first = leaf[0].reshape(-1, size, *leaf.shape[2:])
            if not torch.equal(first, first[:, :1].expand_as(first)):
                raise UsageError(
                    "the env ignores the seeds of reset(): two slots with the same seed started in different states, "
                    "but all episodes of a group must start from the same state; use ppo"
                )


class EpisodesInSlots(Operator):
    """Stands in for `JoinEpisodes` where env slots already hold whole episodes: passes fragments on unchanged."""

    def __init__(self, sibling: Any) -> None: ...

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item
