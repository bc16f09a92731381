"""What settings of other libraries are called here: RLlib, Stable-Baselines3 and its zoo, CleanRL, Tianshou.

No name is guessed for a setting that is known from there: better no answer than a wrong one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Has = Callable[[str], bool]
"""Whether a config has a setting of a dotted name."""


@dataclass(frozen=True)
class Ours:
    """A setting of ours.

    Attributes:
        name: Its dotted name in `config`; with `beside_config` its name beside that.
        conversion: How its value follows from the other library's, "" if it is the same.
        beside_config: Whether it stands in the experiment, not in `config`.
        needs: A setting that the config must have for this to be meant; "" for none.
    """

    name: str
    conversion: str = ""
    beside_config: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Absent:
    """Why there is nothing to set.

    Attributes:
        instead: What there is instead, in a few words; "" for nothing.
        needs: A setting that the config must have for this to be true; "" for none.
    """

    instead: str = ""
    needs: str = ""


_FRAGMENT = (
    Ours(
        "rollout_fragment_length",
        "steps of each env; train_batch_size is that times the envs",
        needs="train_batch_size",
    ),
    Ours("rollout_fragment_length", "steps of each env"),
)
_INTENSITY = Ours("training_intensity", "minibatches per env step: gradient_steps / train_freq")
_EPSILON = Ours("epsilon", "a schedule of points: [[0, first], [env steps, last]]")
_TARGET_EVERY = (
    Ours(
        "target_update_interval",
        "counted in minibatches: env steps times training_intensity",
        needs="training_intensity",
    ),
    Ours("target_update_interval", "counted in batches"),
)
_RUN_LENGTH = Ours("stop.env_steps", beside_config=True)
_RUN_OF_EPOCHS = Ours("stop.env_steps", "epochs times the env steps of each", beside_config=True)
_EPISODES = Ours("evaluation.episodes", beside_config=True)
_EVALUATION = Ours("evaluation.every", "counted in iterations", beside_config=True)
_NORMALIZE = Ours("normalize_observations", "true; rewards: normalize_rewards", needs="normalize_rewards")
_NO_SCALING = Absent(
    "a replay buffer would keep each reward in the scale of its time; clip_rewards bounds them", needs="replay"
)
_ALPHA = "with learn_alpha: false for a fixed number, true for one that is learned"
_ALWAYS_STANDARDIZED = Absent("advantages are always standardised", needs="kl_target")
_ADAM = Absent("the optimizer is Adam", needs="vtrace_clip_rho")

FOREIGN_SETTINGS: Mapping[str, tuple[Ours, ...]] = {
    # Learning.
    "learning_rate": (Ours("lr"),),
    "policy_lr": (Ours("lr"),),
    "actor_lr": (Ours("lr"),),
    "lr_schedule": (Ours("lr", "takes the points itself: [[0, first], [env steps, last]]"),),
    "anneal_lr": (Ours("lr", "a schedule of points: [[0, lr], [env steps, 0]]"),),
    "actor_learning_rate": (Ours("lr"),),
    "q_lr": (Ours("critic_lr"),),
    "critic_learning_rate": (Ours("critic_lr"),),
    "entropy_learning_rate": (Ours("alpha_lr"),),
    "qf_learning_rate": (Ours("critic_lr"),),
    "discount": (Ours("gamma"),),
    "discount_factor": (Ours("gamma"),),
    "grad_clip": (Ours("max_grad_norm"),),
    "batch_size": (Ours("minibatch_size"), Ours("train_batch_size")),
    "grad_clip_by": (Ours("max_grad_norm", "a bound of the norm, the only way to clip"),),
    "gradient_clip": (Ours("max_grad_norm"),),
    "sgd_minibatch_size": (Ours("minibatch_size"),),
    "sample_batch_size": (Ours("rollout_fragment_length", "steps of each env"),),
    "num_minibatches": (Ours("minibatch_size", "steps in each: the batch divided by num_minibatches"),),
    "train_batch_size_per_learner": (Ours("train_batch_size", "that of all learners together"),),
    "n_epochs": (Ours("num_epochs"),),
    "num_sgd_iter": (Ours("num_epochs"),),
    "update_epochs": (Ours("num_epochs"),),
    "repeat_per_collect": (Ours("num_epochs"),),
    "adam_eps": (Ours("adam_epsilon"),),
    # Policy gradients.
    "clip_range": (Ours("clip_param"),),
    "clip_coef": (Ours("clip_param"),),
    "eps_clip": (Ours("clip_param"),),
    "clip_range_vf": (Ours("vf_clip_param"),),
    "vf_loss_clip": (Ours("vf_clip_param"),),
    "value_clip": (Ours("vf_clip_param", "a bound instead of true, or null"),),
    "clip_vloss": (Ours("vf_clip_param", "a bound instead of true, or null"),),
    "ent_coef": (Ours("entropy_coeff"), Ours("initial_alpha", _ALPHA)),
    "entropy_coeff_schedule": (Ours("entropy_coeff", "takes the points itself: [[0, first], [env steps, last]]"),),
    "vf_coef": (Ours("vf_loss_coeff", "as in SB3; half of CleanRL's, whose squared error is halved"),),
    "target_kl": (Ours("kl_target"),),
    "lambda": (Ours("gae_lambda"),),
    "lambda_": (Ours("gae_lambda"),),
    "normalize_advantage": (Ours("standardize_advantages"),),
    "norm_adv": (Ours("standardize_advantages"),),
    "advantage_normalization": (Ours("standardize_advantages"),),
    "vtrace_clip_rho_threshold": (Ours("vtrace_clip_rho"),),
    "vtrace_clip_pg_rho_threshold": (Ours("vtrace_clip_rho"),),
    "replay_buffer_num_slots": (Ours("replay_slots"),),
    # Replay.
    "buffer_size": (Ours("replay.capacity"),),
    "replay_size": (Ours("replay.capacity"),),
    "replay_buffer_config": (Ours("replay", "a section of its own, with capacity"),),
    "prioritized_replay": (Ours("replay.prioritized"),),
    "prioritized_replay_alpha": (Ours("replay.priority_alpha"),),
    "prioritized_replay_beta": (Ours("replay.priority_beta"),),
    "prioritized_replay_eps": (Ours("replay.priority_epsilon"),),
    "store_buffer_in_checkpoints": (Ours("replay.save_in_checkpoints"),),
    "num_steps_sampled_before_learning_starts": (Ours("learning_starts"),),
    "start_timesteps": (Ours("learning_starts"),),
    "train_freq": (_INTENSITY,),
    "train_frequency": (Ours("training_intensity", "minibatches per env step: 1 / train_frequency"),),
    "gradient_steps": (_INTENSITY,),
    "update_per_step": (Ours("training_intensity"),),
    "estimation_step": (Ours("n_step"),),
    "n_steps_return": (Ours("n_step"),),
    "target_network_update_freq": _TARGET_EVERY,
    "target_network_frequency": _TARGET_EVERY,
    "target_update_freq": _TARGET_EVERY,
    "exploration_fraction": (_EPSILON,),
    "exploration_initial_eps": (_EPSILON,),
    "exploration_final_eps": (_EPSILON,),
    "exploration_config": (_EPSILON,),
    "start_e": (_EPSILON,),
    "end_e": (_EPSILON,),
    "eps_train": (_EPSILON,),
    "eps_train_final": (_EPSILON,),
    "initial_epsilon": (_EPSILON,),
    "final_epsilon": (_EPSILON,),
    "epsilon_timesteps": (_EPSILON,),
    "double_q": (Ours("double"),),
    "is_double": (Ours("double"),),
    "n_atoms": (Ours("num_atoms"),),
    "sigma0": (Ours("noisy_sigma"),),
    "policy_frequency": (Ours("policy_delay"),),
    "update_actor_freq": (Ours("policy_delay"),),
    "target_policy_noise": (Ours("target_noise"),),
    "policy_noise": (Ours("target_noise"),),
    "noise_clip": (Ours("target_noise_clip"),),
    "action_noise": (Ours("exploration_noise", "the standard deviation; the kind is `exploration`"),),
    "noise_std": (Ours("exploration_noise"),),
    "noise_type": (
        Ours("exploration", "gaussian for 'normal', ornstein_uhlenbeck for 'ornstein-uhlenbeck'", needs="ou_theta"),
    ),
    "alpha": (Ours("initial_alpha", _ALPHA), Ours("replay.priority_alpha"), Ours("priority_alpha")),
    "beta": (Ours("replay.priority_beta"), Ours("priority_beta")),
    "autotune": (Ours("learn_alpha"),),
    "auto_alpha": (Ours("learn_alpha"),),
    # Evolution.
    "noise_stdev": (Ours("sigma"),),
    "episodes_per_batch": (Ours("num_pairs", "half of it: each perturbation is tried mirrored, too", needs="sigma"),),
    "stepsize": (Ours("lr"),),
    "l2_coeff": (Ours("weight_decay"),),
    # Planning.
    "num_simulations": (Ours("simulations"),),
    "puct_coefficient": (Ours("exploration"),),
    "dirichlet_epsilon": (Ours("root_noise"),),
    "dirichlet_noise": (Ours("root_noise_alpha"),),
    # Networks.
    "policy_kwargs": (Ours("model", "a section: net_arch is model.hiddens, activation_fn is model.activation"),),
    "policy": (Ours("model", "a section; the kind of network follows from the observation"),),
    "model_config": (Ours("model", "a section"),),
    "policy_model_config": (Ours("model", "a section, of the actor and the critics"),),
    "q_model_config": (Ours("model", "a section, of the actor and the critics"),),
    "conv_filters": (Ours("model.conv", "'nature' or 'impala'"), Ours("conv", "'nature' or 'impala'")),
    "net_arch": (Ours("model.hiddens"), Ours("hiddens")),
    "fcnet_hiddens": (Ours("model.hiddens"), Ours("hiddens")),
    "hidden_sizes": (Ours("model.hiddens"), Ours("hiddens")),
    "activation_fn": (Ours("model.activation"), Ours("activation")),
    "fcnet_activation": (Ours("model.activation"), Ours("activation")),
    "vf_share_layers": (Ours("model.shared_value"), Ours("shared_value")),
    "ortho_init": (Ours("model.orthogonal_init"), Ours("orthogonal_init")),
    "use_lstm": (Ours("model.core", "'lstm' instead of true"), Ours("core", "'lstm' instead of true")),
    "use_attention": (Ours("model.core", "'gtrxl' instead of true"), Ours("core", "'gtrxl' instead of true")),
    "attention_dim": (Ours("model.core_width"), Ours("core_width")),
    "attention_num_transformer_units": (Ours("model.gtrxl.layers"), Ours("gtrxl.layers")),
    "attention_num_heads": (Ours("model.gtrxl.heads"), Ours("gtrxl.heads")),
    "attention_memory_inference": (Ours("model.gtrxl.memory_len"), Ours("gtrxl.memory_len")),
    "max_seq_len": (Ours("seq_len"),),
    "lstm_cell_size": (Ours("model.core_width"), Ours("core_width")),
    "use_sde": (Ours("model.use_sde"),),
    "sde_sample_freq": (Ours("model.sde_sample_freq", "null instead of -1"),),
    "log_std_init": (Ours("model.log_std_init", "of half the action range: minus its logarithm"),),
    # Parts of observations.
    "as": (Ours("encode_as"),),
    "one_hot": (Ours("encode_as", "'one_hot' instead of true"),),
    "scale": (Ours("bounds", "[low, high] of what enters as 0 to 1"),),
    # Sampling.
    "n_steps": (Ours("n_step"), *_FRAGMENT),
    "num_steps": _FRAGMENT,
    "step_per_collect": (Ours("train_batch_size"), Ours("rollout_fragment_length", "steps of each env")),
    "n_envs": (Ours("num_envs_per_worker"),),
    "num_envs": (Ours("num_envs_per_worker"),),
    "training_num": (Ours("num_envs_per_worker"),),
    "num_envs_per_env_runner": (Ours("num_envs_per_worker"),),
    "device": (Ours("num_gpus", "1 for 'cuda', 0 for 'cpu'"),),
    "cuda": (Ours("num_gpus", "1 instead of true"),),
    "num_gpus_per_learner": (Ours("num_gpus", "those of all learners together"),),
    "num_aggregation_workers": (Ours("num_aggregators"),),
    "num_aggregator_actors_per_learner": (Ours("num_aggregators", "those of all learners together"),),
    "num_env_runners": (Ours("num_workers"),),
    "num_rollout_workers": (Ours("num_workers"),),
    "num_cpus_per_env_runner": (Ours("num_cpus_per_worker"),),
    "min_sample_timesteps_per_iteration": (Ours("min_env_steps_per_iteration"),),
    "timesteps_per_iteration": (Ours("min_env_steps_per_iteration"),),
    "step_per_epoch": (Ours("min_env_steps_per_iteration"),),
    "observation_filter": (Ours("normalize_observations", "true for MeanStdFilter"),),
    "normalize": (_NORMALIZE, Ours("normalize_observations", "true")),
    "normalize_kwargs": (
        Ours(
            "normalize_observations", "true for norm_obs; norm_reward is normalize_rewards", needs="normalize_rewards"
        ),
        Ours("normalize_observations", "true for norm_obs"),
    ),
    "reward_normalization": (Ours("normalize_rewards"),),
    "rew_norm": (Ours("normalize_rewards"),),
    "frame_stack": (Ours("model.views.obs"),),
    # What stands beside config.
    "run": (Ours("algorithm", beside_config=True),),
    "env_id": (Ours("env", beside_config=True),),
    "multi_agent": (Ours("policies", "with mapping and train", beside_config=True),),
    "epoch": (_RUN_OF_EPOCHS,),
    "epochs": (_RUN_OF_EPOCHS,),
    "max_epoch": (_RUN_OF_EPOCHS,),
    "num_iterations": (Ours("stop.iteration", beside_config=True),),
    "training_iteration": (Ours("stop.iteration", beside_config=True),),
    "num_cpus": (Ours("resources.cpus", "those of the trial's own process", beside_config=True),),
    "n_timesteps": (_RUN_LENGTH,),
    "total_timesteps": (_RUN_LENGTH,),
    "num_timesteps": (_RUN_LENGTH,),
    "timesteps_total": (_RUN_LENGTH,),
    "seed": (Ours("seeds", "a number of seeds, or a list of them", beside_config=True),),
    "env_config": (Ours("env.kwargs", beside_config=True),),
    "env_wrapper": (Ours("env.wrappers", beside_config=True),),
    "horizon": (Ours("env.max_episode_steps", beside_config=True),),
    "eval_freq": (_EVALUATION,),
    "evaluation_interval": (_EVALUATION,),
    "n_eval_episodes": (_EPISODES,),
    "evaluation_duration": (_EPISODES,),
    "episode_per_test": (_EPISODES,),
    "test_num": (_EPISODES,),
}
"""Settings of ours by a name elsewhere, the first that an algorithm has being meant."""

ABSENT_SETTINGS: Mapping[str, tuple[Absent, ...]] = {
    # Learning.
    "normalize_advantage": (_ALWAYS_STANDARDIZED,),
    "norm_adv": (_ALWAYS_STANDARDIZED,),
    "advantage_normalization": (_ALWAYS_STANDARDIZED,),
    "reward_normalization": (_NO_SCALING,),
    "rew_norm": (_NO_SCALING,),
    "kl_coeff": (Absent("clipping alone bounds an update, and kl_target ends its passes", needs="kl_target"),),
    "vtrace": (Absent("values are always corrected by V-trace", needs="vtrace_clip_rho"),),
    "minibatch_buffer_size": (Absent(),),
    "max_batchsize": (Absent(),),
    "opt_type": (_ADAM,),
    "momentum": (_ADAM,),
    "decay": (_ADAM,),
    "use_rms_prop": (Absent("the optimizer is Adam", needs="gae_lambda"),),
    "rms_prop_eps": (Absent("the optimizer is Adam", needs="gae_lambda"),),
    "epsilon": (Absent("the optimizer is Adam, whose epsilon is 1e-5", needs="vtrace_clip_rho"),),
    "n_critics": (
        Absent("there are always two Q functions", needs="alpha_lr"),
        Absent("there are always two Q functions", needs="target_noise"),
    ),
    "twin_q": (
        Absent("there are always two Q functions", needs="alpha_lr"),
        Absent("there are always two Q functions", needs="target_noise"),
    ),
    # Exploration and sampling.
    "explore": (Absent("training explores, and evaluations do not"),),
    "eps_test": (Absent("evaluations take the greedy action", needs="epsilon"),),
    "normalize_actions": (Absent("actions are always in units of half the range between their bounds"),),
    "compress_observations": (Absent(),),
    "min_time_s_per_iteration": (Absent("min_env_steps_per_iteration counts env steps instead"),),
    "evaluation_num_workers": (Absent("evaluations run in the trial's own process"),),
    "evaluation_num_env_runners": (Absent("evaluations run in the trial's own process"),),
    # The program.
    "framework": (Absent("networks are torch's"),),
}
"""What there is instead of other libraries' settings that have no equivalent here; where none is said to have one."""

FOREIGN_NAMES = FOREIGN_SETTINGS.keys() | ABSENT_SETTINGS.keys()
"""All names of other libraries that are known."""

_IN_EVERY_CONFIG = ("torch_threads", "num_envs_per_worker")
"""Settings of which each algorithm, policy and world has one, and no section of them."""


def ours_for(name: str, configs: Sequence[Has], known: Iterable[str], path: str = "") -> str:
    """Says what another library's setting is called here, also where its name is misspelt; "" if that is not known.

    Args:
        name: Its name there, or one that is nearer to it than to any of ours.
        configs: The config that is meant; where it is not known of which algorithm it is, that of each.
        known: The names that may stand there.
        path: Path of the config, to be said with a name in it; "" if what is wrong stands in it itself.
    """
    if answer := _answer(name, configs, path):
        return answer
    ours = set(known)
    answered = [foreign for foreign in FOREIGN_NAMES - ours if _answer(foreign, configs, path)]
    near = difflib.get_close_matches(name, {*answered, *ours}, n=1, cutoff=0.9)
    if not near or near[0] not in answered:
        return ""
    return f"unknown key {name!r}; {_answer(near[0], configs, path)}"


def _answer(name: str, configs: Sequence[Has], path: str) -> str:
    found = list(dict.fromkeys(ours for has in configs if (ours := _first_ours(name, has))))
    places = list(dict.fromkeys(_placed(ours, path) for ours in found))
    if len(places) > 1:
        return f"{name!r} is {' or '.join(places)} here, by algorithm"
    if places:
        return f"{name!r} is {places[0]} here" + (f": {found[0].conversion}" if found[0].conversion else "")
    absent = next((why for why in ABSENT_SETTINGS.get(name, ()) for has in configs if _is_met(why.needs, has)), None)
    if absent is None:
        return ""
    return f"there is no {name!r} here" + (f": {absent.instead}" if absent.instead else "")


def _first_ours(name: str, has: Has) -> Ours | None:
    for ours in FOREIGN_SETTINGS.get(name, ()):
        there = any(map(has, _IN_EVERY_CONFIG)) if ours.beside_config else has(ours.name)
        if there and _is_met(ours.needs, has):
            return ours
    return None


def _is_met(needs: str, has: Has) -> bool:
    return not needs or has(needs)


def _placed(ours: Ours, path: str) -> str:
    if ours.beside_config:
        return f"`{ours.name}`, beside config,"
    return f"`{path}.{ours.name}`" if path else f"'{ours.name}'"
