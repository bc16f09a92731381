"""Actor-critics with Q functions for continuous actions: DDPG, TD3, SAC and Ape-X DDPG."""
