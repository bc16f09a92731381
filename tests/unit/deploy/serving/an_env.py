"""An env outside of the list of harmless ones."""

from rlrun.toys.known_optimum import ConstantReward


class AnEnv(ConstantReward):
    """An env of its own."""
