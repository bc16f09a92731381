"""Search in the space of parameters: candidates, their evaluation on workers, and what follows from their returns."""
