"""Engine: envs, rollouts, policies, learners, dataflow and trainings, without any specific algorithm or run."""
