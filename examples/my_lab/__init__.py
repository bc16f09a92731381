"""A lab outside of rlrun: algorithms, an env, an exploration and a network of one's own."""
