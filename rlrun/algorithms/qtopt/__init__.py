"""QT-Opt: Q-learning for continuous actions, maximized by the cross-entropy method."""
