"""Engine: envs, rollouts, policies, learners, dataflow and trainings; it knows no algorithm and no run."""
