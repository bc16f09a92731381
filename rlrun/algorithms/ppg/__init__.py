"""Phasic policy gradient: PPO with auxiliary phases, which teach the policy's layers what states are worth."""
