"""What happens to the items of a flow: batches, learning, weights, replay."""
