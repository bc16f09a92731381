"""DQN and its distributed forms: Ape-X, Gorila and asynchronous Q-learning."""
