"""REINFORCE: policy gradients over complete episodes."""
