"""QT-Opt: Q-learning for continuous actions; the cross-entropy method finds actions with high Q values."""
