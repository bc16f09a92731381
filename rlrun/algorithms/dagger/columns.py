"""Column of fragments of DAgger."""

EXPERT_ACTIONS = "expert_actions"
"""Column of the expert's actions in the states that were visited, in the policy's units, [T, B, ...]."""
