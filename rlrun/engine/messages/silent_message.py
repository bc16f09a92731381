"""Messages that are stored with a trial but not shown while it runs, since users need not act."""

from __future__ import annotations

SEPARATE_OPERATIONS = "updates run as separate torch operations"
"""Beginning of messages about updates that run neither as C kernels nor in another compiled form."""


class SilentMessage(str):
    """Message that is only stored in a trial's record, not printed to the terminal, since it calls for no action."""
