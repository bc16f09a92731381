"""Adapters that make tensor envs of simulators' vector envs: rsl_rl's interface, Gymnasium's, and functions in JAX."""
