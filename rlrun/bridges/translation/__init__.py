"""Translation of RLlib's experiment files and rl-zoo3's hyperparameter files to rlrun's specs.

Keys are looked up in `rlrun/engine/messages/foreign_names.yaml` by library, version and algorithm. The libraries'
defaults, which apply to settings that a file omits, are in `defaults.yaml`. Nothing that a file names is imported or
run.
"""
