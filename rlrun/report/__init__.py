"""What runs have to show: their trials by configuration, curves, statistics, pictures and pages."""
