"""Messages that users need not see while a trial runs, such as recorded notes."""

from __future__ import annotations


class SilentMessage(str):
    """Message that goes only into a trial's record, not to the terminal, since the user need not act."""
