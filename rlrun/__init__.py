"""Reinforcement learning from YAML: specs, dataflow, rollouts, learners and Ray Tune.

The Python interface is `rlrun.run`, `rlrun.PPO` and `rlrun.Algorithm`; each is imported when it is first asked for.
"""
