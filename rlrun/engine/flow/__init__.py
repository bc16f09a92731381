"""Dataflow of an algorithm: the stream of experience through named operators, from rollout workers to the learner."""
