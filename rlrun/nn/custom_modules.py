"""Modules from outside of rlrun: made by import path, tried, and refused where parameters are not all of them (torch).

Workers, learners and checkpoints hold parameters alone, so what a module returns must follow from those and from what
is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rlrun.errors import UsageError
from rlrun.registry import load_object


def tried_module(path: str, what: str, make: Callable[[Any], Any], inputs: Any, seed: int) -> tuple[nn.Module, Any]:
    """Makes a module and runs it twice.

    Args:
        path: What makes it, as `package.module:Name`.
        what: What it is for, for messages: "network".
        make: Calls what the path names.
        inputs: What it is run on.
        seed: Seed of its first weights.

    Returns:
        The module, and what it returned, which is the caller's to check.

    Raises:
        UsageError: It is not an nn.Module, or what it returns depends on more than parameters and observations.
    """
    with torch.random.fork_rng(devices=[]):
        named = load_object(path, what=what)
        if isinstance(named, nn.Module) or not callable(named):
            raise UsageError(
                f"the {what} {path} is {type(named).__name__}; name a class, or a function, that makes one"
            )
        torch.manual_seed(seed)
        module = make(named)
        if not isinstance(module, nn.Module):
            raise UsageError(f"the {what} {path} makes {type(module).__name__}, not a torch.nn.Module")
        with torch.no_grad():
            returned = module(inputs)
            # Watched at the second time, since layers may come into being as they are first run.
            buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
            state = torch.get_rng_state()
            module(inputs)
        draws = not torch.equal(state, torch.get_rng_state())
    changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
    if changed:
        raise UsageError(
            f"the {what} {path} changes buffers as it runs ({', '.join(changed)}), as BatchNorm does. Parameters "
            "alone are sent to workers and saved: take LayerNorm or GroupNorm instead"
        )
    if draws:
        raise UsageError(
            f"the {what} {path} draws random numbers as it runs, as Dropout does. They would be others in workers, in "
            "the learner and in a resumed run: leave it out"
        )
    return module, returned
