"""Learned dynamics: ensembles of networks that predict what an env does, their fitting, and rollouts in them."""
