"""Dataflows shared by algorithms, such as the update loop of off-policy methods with a replay buffer."""
