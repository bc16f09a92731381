"""Cooperative and mixed multi-agent learning: VDN, QMIX, MADDPG, MAPPO and IPPO."""
