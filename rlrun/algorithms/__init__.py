"""Built-in algorithms, loaded by name: one file per algorithm, or a folder per family with policies and networks."""
