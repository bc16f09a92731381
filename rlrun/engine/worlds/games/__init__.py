"""Games for tree search, and game trees for exact analysis."""
