"""REINFORCE: policy gradients of complete episodes."""
