"""AlphaZero: self-play with Monte-Carlo tree search."""
