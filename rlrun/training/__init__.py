"""Training: one or several trainees under their algorithms, run, saved and restored."""
