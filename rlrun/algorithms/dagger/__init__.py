"""DAgger: an expert labels the states that the learner visits."""
