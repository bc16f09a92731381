"""Vector envs with NEXT_STEP autoreset and episode seeds, their config, and env wrappers."""
