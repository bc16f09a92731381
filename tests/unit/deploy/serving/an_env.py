"""An env that is not in the list of harmless envs."""

from rlrun.toys.known_optimum import ConstantReward


class AnEnv(ConstantReward):
    """A custom env."""
