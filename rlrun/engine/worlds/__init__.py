"""Multi-agent environments (worlds), their vectorization, and wrappers."""
