"""What Ray Tune is told, and the run over it."""
