"""Vector envs with NEXT_STEP autoreset and a seed per episode, their config, and env wrappers."""
