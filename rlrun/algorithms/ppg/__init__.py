"""Phasic policy gradient: PPO with auxiliary phases that distill value estimates into the policy network."""
