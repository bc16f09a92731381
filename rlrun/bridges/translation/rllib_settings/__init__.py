"""Functions that convert RLlib's settings to rlrun's, in one module per family; `foreign_names.yaml` refers to them.

RLlib sometimes uses other units: rows instead of env steps, sums instead of means over a batch, env steps instead of
minibatches between target updates. Each function documents the difference that it converts.
"""
