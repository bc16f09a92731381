"""Adapters that turn simulators into tensor envs: vector envs of rsl_rl and Gymnasium, and JAX functions."""
