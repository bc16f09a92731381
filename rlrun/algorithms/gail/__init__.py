"""GAIL: a discriminator between an expert and the learner, whose judgement is the learner's reward."""
