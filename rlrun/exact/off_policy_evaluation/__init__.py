"""Off-policy evaluation: value estimates of a policy from episodes that another policy collected."""
