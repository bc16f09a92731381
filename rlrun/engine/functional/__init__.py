"""Pure functions of arrays or tensors, such as returns, dynamic programming, statistics, seeds and schedules."""
