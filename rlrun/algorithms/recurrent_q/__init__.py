"""Recurrent Q-learning from replayed sequences: R2D2, and R2D3 with demonstrations."""
