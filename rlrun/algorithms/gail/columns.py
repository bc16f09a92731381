"""Batch columns from which GAIL's discriminator learns: single steps of the learner and of the expert."""

OWN_OBS, OWN_ACTIONS = "discriminator_obs", "discriminator_actions"
"""Columns of the learner's present observations, trees of [T, B, ...], and of its actions as the env took them."""

EXPERT_OBS, EXPERT_ACTIONS = "expert_obs", "expert_actions"
"""Columns of expert steps, drawn uniformly, one for each of the learner's steps."""
