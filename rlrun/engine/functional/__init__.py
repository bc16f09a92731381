"""Pure functions of arrays or tensors."""
