"""GAIL: a discriminator between expert and learner, whose output is the learner's reward."""
