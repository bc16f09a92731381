"""Games for tree search and exact analysis."""
