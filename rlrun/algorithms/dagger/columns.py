"""Names of the additional fragment columns of DAgger and policy distillation."""

EXPERT_ACTIONS = "expert_actions"
"""Column of the expert's actions in the states that were visited, in the policy's units, [T, B, ...]."""

EXPERT_OUTPUTS = "expert_outputs"
"""Column of the parameters of the expert's action distributions in the states that were visited, [T, B, K]."""
