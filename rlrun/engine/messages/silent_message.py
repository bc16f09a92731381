"""Messages that are only recorded with a trial, since users need not see them while it runs."""

from __future__ import annotations


class SilentMessage(str):
    """Message that goes only into a trial's record, not to the terminal, since the user need not act."""
