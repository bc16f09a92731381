"""DAgger: imitation learning in which an expert labels the states that the learner visits."""
