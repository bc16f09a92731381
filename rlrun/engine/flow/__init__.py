"""Dataflow of an algorithm: streams of batches through named operators, from rollout workers to the learner."""
