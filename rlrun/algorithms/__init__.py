"""Built-in algorithms, loaded by name: one module per algorithm, or one package per family of algorithms."""
