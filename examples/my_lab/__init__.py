"""A lab outside of rlrun: custom algorithms, an env, an exploration and a network."""
