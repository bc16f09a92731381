"""Trust region methods: natural policy gradients, with and without a line search."""
