"""The policies' parameters under an optimizer."""
