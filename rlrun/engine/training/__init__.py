"""Training of one or several policies in an env, with acting, evaluation, checkpoints and results."""
