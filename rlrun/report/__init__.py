"""Reports of runs: trials by configuration, curves, statistics, diagnoses, pictures and pages."""
