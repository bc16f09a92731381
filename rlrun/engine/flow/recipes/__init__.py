"""Dataflow building blocks shared by algorithms, such as the replay and update loop of off-policy methods."""
