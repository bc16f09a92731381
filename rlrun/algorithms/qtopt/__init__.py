"""QT-Opt: Q-learning for continuous actions, maximised by the cross-entropy method."""
