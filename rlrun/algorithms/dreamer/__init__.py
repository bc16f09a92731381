"""Dreamer: an actor-critic that learns in the latent space of a recurrent world model."""
