"""Vector envs behind one autoreset rule, their seeds, and small worlds for tests."""
