"""Catalog of built-in algorithms, which `rlrun algorithms` lists; written by `python -m scripts.stubs`."""

# ruff: noqa: E501
from typing import NamedTuple


class Listed(NamedTuple):
    """Algorithm in the catalog: name, supported kinds of action spaces, first line of the docstring."""

    name: str
    acts_in: tuple[str, ...]
    summary: str


EVERY_KIND: tuple[str, ...] = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple")
CATALOG = {
    "a2c": Listed(
        "A2C",
        EVERY_KIND,
        "Synchronous advantage actor-critic: one policy-gradient step per batch of short rollouts (arXiv:1602.01783).",
    ),
    "a3c": Listed(
        "A3C",
        EVERY_KIND,
        "Asynchronous advantage actor-critic: workers compute gradients, which are applied as they arrive.",
    ),
    "alphazero": Listed(
        "AlphaZero",
        ("Discrete",),
        "AlphaZero: self-play with Monte Carlo tree search guided by a policy-value network (arXiv:1712.01815).",
    ),
    "apex": Listed(
        "Apex",
        ("Discrete",),
        "Distributed prioritized experience replay with DQN's policy and loss (arXiv:1803.00933).",
    ),
    "apex_ddpg": Listed(
        "ApexDDPG",
        ("bounded Box",),
        "DDPG's policy and losses with distributed prioritized experience replay (arXiv:1803.00933).",
    ),
    "appo": Listed(
        "APPO",
        EVERY_KIND,
        "Asynchronous PPO: IMPALA's dataflow with the clipped surrogate relative to a target policy.",
    ),
    "archer": Listed(
        "Archer",
        ("Discrete",),
        "ArCHer: actor-critic for dialogues; critics learn the values of utterances from a replay buffer.",
    ),
    "ars": Listed(
        "ARS",
        EVERY_KIND,
        "Augmented random search: finite-difference steps along the best mirrored perturbations (arXiv:1803.07055).",
    ),
    "async_dqn": Listed(
        "AsyncDQN",
        ("Discrete",),
        "Asynchronous n-step Q-learning: workers compute gradients, which are applied as they arrive (arXiv:1602.01783).",
    ),
    "awac": Listed(
        "AWAC",
        ("bounded Box", "Discrete"),
        "Advantage-weighted actor-critic: the actor imitates recorded actions, weighted by their advantages.",
    ),
    "bc": Listed("BC", EVERY_KIND, "Behavioral cloning: the policy maximizes the likelihood of the recorded actions."),
    "bcq": Listed(
        "BCQ",
        ("Discrete",),
        "Batch-constrained Q-learning: Q-learning over the actions that a learned behavior policy considers likely.",
    ),
    "cem": Listed(
        "CEM",
        EVERY_KIND,
        "Cross-entropy method over parameters: a diagonal normal distribution fitted to the elites of each generation.",
    ),
    "cmaes": Listed(
        "CMAES",
        EVERY_KIND,
        "CMA-ES over parameters: a normal distribution with adapted covariance and step size (arXiv:1604.00772).",
    ),
    "cql": Listed(
        "CQL",
        ("bounded Box", "Discrete"),
        "Conservative Q-learning: lowers the values of actions that are not in the data.",
    ),
    "crossq": Listed(
        "CrossQ",
        ("bounded Box",),
        "SAC with batch renormalization and no target networks: one pass computes values and targets (arXiv:1902.05605).",
    ),
    "crr": Listed(
        "CRR",
        ("bounded Box", "Discrete"),
        "Critic-regularized regression: imitates the recorded actions that the critics rate higher than the actor's own.",
    ),
    "dagger": Listed(
        "DAgger",
        EVERY_KIND,
        "Dataset aggregation: supervised learning of the expert's actions in the states that the learner visits.",
    ),
    "ddpg": Listed(
        "DDPG",
        ("bounded Box",),
        "Deep deterministic policy gradient: an off-policy actor-critic for continuous actions (arXiv:1509.02971).",
    ),
    "ddppo": Listed(
        "DDPPO",
        EVERY_KIND,
        "Decentralized distributed PPO: workers learn from their own rollouts and all-reduce gradients (arXiv:1911.00357).",
    ),
    "distill": Listed(
        "Distill",
        EVERY_KIND,
        "On-policy policy distillation: KL divergence to the teacher's distributions in states that the student visits.",
    ),
    "dpo": Listed(
        "DPO",
        EVERY_KIND,
        "Direct preference optimization on pairs of episodes that the policy itself generates in each iteration.",
    ),
    "dqn": Listed(
        "DQN", ("Discrete",), "Deep Q-network: off-policy Q-learning from a replay buffer with a target network."
    ),
    "dreamer": Listed(
        "Dreamer",
        ("bounded Box", "Discrete"),
        "DreamerV3: world model learned from replayed sequences, actor-critic from its imagination (arXiv:2301.04104).",
    ),
    "droq": Listed(
        "DroQ",
        ("bounded Box", "Discrete"),
        "Dropout Q-functions: two critics with dropout and LayerNorm, and many updates per env step (arXiv:2110.02034).",
    ),
    "dt": Listed(
        "DT",
        ("Discrete", "Box"),
        "Decision Transformer: a transformer predicts the data's actions from returns-to-go, states and past actions.",
    ),
    "es": Listed(
        "ES",
        EVERY_KIND,
        "Evolution strategies: gradient estimates from ranked returns of mirrored perturbations (arXiv:1703.03864).",
    ),
    "filtered_bc": Listed(
        "FilteredBC",
        EVERY_KIND,
        "Filtered behavioral cloning: maximum likelihood of the actions in each batch's best episodes.",
    ),
    "flashsac": Listed(
        "FlashSAC",
        ("bounded Box",),
        "SAC with inverted residual blocks, batch normalization, projected weights and repeated noise (arXiv:2604.04539).",
    ),
    "gail": Listed(
        "GAIL",
        ("Discrete", "Box"),
        "GAIL: PPO on rewards from a discriminator, which learns to distinguish the expert's steps from the learner's.",
    ),
    "gorila": Listed(
        "Gorila",
        ("Discrete",),
        "Massively parallel DQN: workers compute gradients from local replay buffers (arXiv:1507.04296).",
    ),
    "grpo": Listed(
        "GRPO",
        EVERY_KIND,
        "Group relative policy optimization: PPO without a critic, on returns standardized over a group of episodes.",
    ),
    "impala": Listed(
        "Impala",
        EVERY_KIND,
        "Importance-weighted actor-learner architecture: asynchronous collection with V-trace (arXiv:1802.01561).",
    ),
    "ippo": Listed(
        "IPPO",
        EVERY_KIND,
        "Independent PPO: value functions of each agent's own observation, normalized as in MAPPO (arXiv:2011.09533).",
    ),
    "iql": Listed(
        "IQL",
        ("bounded Box", "Discrete"),
        "Implicit Q-learning: state values are upper expectiles of the values of recorded actions (arXiv:2110.06169).",
    ),
    "iqn": Listed(
        "IQN",
        ("Discrete",),
        "Implicit quantile networks: DQN that learns the return's quantiles at random fractions (arXiv:1806.06923).",
    ),
    "lints": Listed(
        "LinTS",
        ("Discrete",),
        "Linear Thompson sampling: pulls the best arm under coefficients sampled from the posterior (arXiv:1209.3352).",
    ),
    "linucb": Listed(
        "LinUCB",
        ("Discrete",),
        "Linear contextual bandit that pulls the arm with the largest upper confidence bound (arXiv:1003.0146).",
    ),
    "maddpg": Listed(
        "MADDPG",
        ("bounded Box", "Discrete"),
        "Multi-agent DDPG: centralized critics, decentralized actors (arXiv:1706.02275).",
    ),
    "maml": Listed(
        "MAML",
        EVERY_KIND,
        "Model-agnostic meta-learning: initial parameters for fast adaptation to a task (arXiv:1703.03400, alg. 3).",
    ),
    "mappo": Listed(
        "MAPPO",
        EVERY_KIND,
        "Multi-agent PPO with a centralized value function, normalized by running moments (arXiv:2103.01955).",
    ),
    "marwil": Listed(
        "MARWIL",
        EVERY_KIND,
        "Monotonic advantage re-weighted imitation learning: cloning weighted by exponentiated advantages.",
    ),
    "mbmpo": Listed(
        "MBMPO",
        ("Discrete", "Box"),
        "Model-based meta-policy optimization: MAML whose tasks are the members of a dynamics ensemble (arXiv:1809.05214).",
    ),
    "mbpo": Listed(
        "MBPO",
        ("bounded Box", "Discrete"),
        "Model-based policy optimization: SAC on model rollouts branched from replayed states (arXiv:1906.08253).",
    ),
    "npg": Listed(
        "NPG",
        EVERY_KIND,
        "Natural policy gradient: steps of constant KL divergence (Kakade 2001; Rajeswaran et al., arXiv:1703.02660).",
    ),
    "pg": Listed(
        "PG", EVERY_KIND, "REINFORCE: Monte Carlo policy gradient over whole episodes, with an optional value baseline."
    ),
    "ppg": Listed(
        "PPG",
        EVERY_KIND,
        "Phasic policy gradient: PPO whose policy network learns values in separate phases (arXiv:2009.04416).",
    ),
    "ppo": Listed(
        "PPO",
        EVERY_KIND,
        "Proximal policy optimization: the clipped surrogate objective over epochs of minibatch SGD (arXiv:1707.06347).",
    ),
    "pqn": Listed(
        "PQN",
        ("Discrete",),
        "Parallelised Q-network: Q(lambda) with LayerNorm, over epochs of minibatch SGD (arXiv:2407.04811).",
    ),
    "q_learning": Listed(
        "QLearning", ("Discrete",), "Tabular Q-learning (Watkins and Dayan, 1992): one TD update of the table per step."
    ),
    "qmix": Listed(
        "QMIX",
        ("Discrete",),
        "Monotonic value factorization: a mixing network combines the members' Q values (arXiv:1803.11485).",
    ),
    "qtopt": Listed(
        "QTOpt",
        ("bounded Box",),
        "Off-policy Q-learning with continuous actions, which the cross-entropy method chooses (arXiv:1806.10293).",
    ),
    "r2d2": Listed(
        "R2D2",
        ("Discrete",),
        "Recurrent replay distributed DQN: double Q-learning from sequences with stored recurrent states.",
    ),
    "r2d3": Listed(
        "R2D3", ("Discrete",), "R2D2 that samples a share of its sequences from demonstrations (arXiv:1909.01387)."
    ),
    "random": Listed(
        "Random", EVERY_KIND, "Uniformly random choice among the allowed actions: a baseline without learning."
    ),
    "redq": Listed(
        "REDQ",
        ("bounded Box", "Discrete"),
        "Randomized ensembled double Q-learning: many critics, and many updates per env step (arXiv:2101.05982).",
    ),
    "reward_model": Listed(
        "RewardModel",
        EVERY_KIND,
        "Reward model: maximum likelihood of preferences between two episodes under the Bradley-Terry model.",
    ),
    "rlhf": Listed(
        "RLHF",
        EVERY_KIND,
        "Reinforcement learning from human feedback: PPO on a reward model's scores, with a KL penalty to a reference.",
    ),
    "rloo": Listed(
        "RLOO",
        EVERY_KIND,
        "REINFORCE leave-one-out: critic-free PPO whose baseline is the mean return of a group's other episodes.",
    ),
    "rlpd": Listed(
        "RLPD",
        ("bounded Box", "Discrete"),
        "Reinforcement learning with prior data: SAC with layer normalization, many critics and symmetric sampling.",
    ),
    "sac": Listed(
        "SAC",
        ("bounded Box", "Discrete"),
        "Soft Actor-Critic: maximum-entropy actor-critic with twin Q functions and a learned temperature.",
    ),
    "simba": Listed(
        "SimBa",
        ("bounded Box", "Discrete"),
        "SAC with normalized observations, residual blocks with LayerNorm, and weight decay (arXiv:2410.09754).",
    ),
    "slateq": Listed(
        "SlateQ",
        ("MultiDiscrete",),
        "Q-learning for slates; a slate's value is the mean value of its items, weighted by their click probabilities.",
    ),
    "td3": Listed(
        "TD3",
        ("bounded Box",),
        "DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing (arXiv:1802.09477).",
    ),
    "td3_bc": Listed(
        "TD3BC",
        ("bounded Box",),
        "TD3 with a penalty on the squared distance between the actor's and the recorded actions (arXiv:2106.06860).",
    ),
    "tqc": Listed(
        "TQC",
        ("bounded Box",),
        "Truncated quantile critics: targets drop the largest quantiles of all critics (arXiv:2005.04269).",
    ),
    "trpo": Listed(
        "TRPO",
        EVERY_KIND,
        "Trust region policy optimization: a natural gradient step with bounded KL divergence (arXiv:1502.05477).",
    ),
    "value_iteration": Listed(
        "ValueIteration",
        ("Discrete",),
        "Value iteration: Bellman optimality backups of all states in sweeps (Bellman, 1957).",
    ),
    "vdn": Listed(
        "VDN",
        ("Discrete",),
        "Value decomposition networks: double Q-learning of the sum of members' Q values (arXiv:1706.05296).",
    ),
    "xqc": Listed(
        "XQC",
        ("bounded Box",),
        "SAC with batch normalization, projected weights and categorical critics of scaled returns (arXiv:2509.25174).",
    ),
}
