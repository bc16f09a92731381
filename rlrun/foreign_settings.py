"""What settings of other libraries are called here: RLlib, Stable-Baselines3 and its zoo, CleanRL, Tianshou.

A name that means something else here, or nothing, is not in the table: better no answer than a wrong one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ours:
    """A setting of ours.

    Attributes:
        name: Its dotted name in `config`; with `beside_config` its name beside that.
        conversion: How its value follows from the other library's, "" if it is the same.
        beside_config: Whether it stands in the experiment, not in `config`.
    """

    name: str
    conversion: str = ""
    beside_config: bool = False


_FRAGMENT = Ours("rollout_fragment_length", "steps of each env; train_batch_size is that times the envs")
_INTENSITY = Ours("training_intensity", "minibatches per env step: gradient_steps / train_freq")
_EPSILON = Ours("epsilon", "a schedule of points: [[0, first], [env steps, last]]")
_TARGET_EVERY = Ours("target_update_interval", "counted in minibatches: env steps times training_intensity")
_RUN_LENGTH = Ours("stop.env_steps", beside_config=True)
_EVALUATION = Ours("evaluation.every", "counted in iterations", beside_config=True)
_NORMALIZE = Ours("normalize_observations", "true; rewards: normalize_rewards")

FOREIGN_SETTINGS: Mapping[str, tuple[Ours, ...]] = {
    # Learning.
    "learning_rate": (Ours("lr"),),
    "policy_lr": (Ours("lr"),),
    "actor_lr": (Ours("lr"),),
    "lr_schedule": (Ours("lr", "takes the points itself: [[0, first], [env steps, last]]"),),
    "anneal_lr": (Ours("lr", "a schedule of points: [[0, lr], [env steps, 0]]"),),
    "q_lr": (Ours("critic_lr"),),
    "qf_learning_rate": (Ours("critic_lr"),),
    "discount": (Ours("gamma"),),
    "discount_factor": (Ours("gamma"),),
    "grad_clip": (Ours("max_grad_norm"),),
    "batch_size": (Ours("minibatch_size"), Ours("train_batch_size")),
    "sgd_minibatch_size": (Ours("minibatch_size"),),
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
    "clip_vloss": (Ours("vf_clip_param", "a bound instead of true, or null"),),
    "ent_coef": (Ours("entropy_coeff"), Ours("initial_alpha", "with learn_alpha: true for 'auto'")),
    "entropy_coeff_schedule": (Ours("entropy_coeff", "takes the points itself: [[0, first], [env steps, last]]"),),
    "vf_coef": (Ours("vf_loss_coeff"),),
    "target_kl": (Ours("kl_target"),),
    "lambda": (Ours("gae_lambda"),),
    "lambda_": (Ours("gae_lambda"),),
    "normalize_advantage": (Ours("standardize_advantages"),),
    "norm_adv": (Ours("standardize_advantages"),),
    "vtrace_clip_rho_threshold": (Ours("vtrace_clip_rho"),),
    "vtrace_clip_pg_rho_threshold": (Ours("vtrace_clip_rho"),),
    "replay_buffer_num_slots": (Ours("replay_slots"),),
    # Replay.
    "buffer_size": (Ours("replay.capacity"),),
    "replay_buffer_config": (Ours("replay", "a section of its own, with capacity"),),
    "prioritized_replay": (Ours("replay.prioritized"),),
    "prioritized_replay_alpha": (Ours("replay.priority_alpha"),),
    "prioritized_replay_beta": (Ours("replay.priority_beta"),),
    "num_steps_sampled_before_learning_starts": (Ours("learning_starts"),),
    "start_timesteps": (Ours("learning_starts"),),
    "train_freq": (_INTENSITY,),
    "train_frequency": (Ours("training_intensity", "minibatches per env step: 1 / train_frequency"),),
    "gradient_steps": (_INTENSITY,),
    "update_per_step": (Ours("training_intensity"),),
    "estimation_step": (Ours("n_step"),),
    "n_steps_return": (Ours("n_step"),),
    "target_network_update_freq": (_TARGET_EVERY,),
    "target_network_frequency": (_TARGET_EVERY,),
    "target_update_freq": (_TARGET_EVERY,),
    "exploration_fraction": (_EPSILON,),
    "exploration_initial_eps": (_EPSILON,),
    "exploration_final_eps": (_EPSILON,),
    "exploration_config": (_EPSILON,),
    "start_e": (_EPSILON,),
    "end_e": (_EPSILON,),
    "eps_train": (_EPSILON,),
    "double_q": (Ours("double"),),
    "policy_frequency": (Ours("policy_delay"),),
    "target_policy_noise": (Ours("target_noise"),),
    "policy_noise": (Ours("target_noise"),),
    "noise_clip": (Ours("target_noise_clip"),),
    "action_noise": (Ours("exploration_noise", "the standard deviation; the kind is `exploration`"),),
    "alpha": (Ours("initial_alpha"),),
    "autotune": (Ours("learn_alpha"),),
    # Planning.
    "num_simulations": (Ours("simulations"),),
    "puct_coefficient": (Ours("exploration"),),
    "dirichlet_epsilon": (Ours("root_noise"),),
    "dirichlet_noise": (Ours("root_noise_alpha"),),
    # Networks.
    "policy_kwargs": (Ours("model", "a section: net_arch is model.hiddens, activation_fn is model.activation"),),
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
    "n_steps": (Ours("n_step"), _FRAGMENT),
    "num_steps": (_FRAGMENT,),
    "step_per_collect": (Ours("train_batch_size"), Ours("rollout_fragment_length", "steps of each env")),
    "n_envs": (Ours("num_envs_per_worker"),),
    "num_envs": (Ours("num_envs_per_worker"),),
    "training_num": (Ours("num_envs_per_worker"),),
    "num_envs_per_env_runner": (Ours("num_envs_per_worker"),),
    "num_env_runners": (Ours("num_workers"),),
    "num_rollout_workers": (Ours("num_workers"),),
    "num_cpus_per_env_runner": (Ours("num_cpus_per_worker"),),
    "min_sample_timesteps_per_iteration": (Ours("min_env_steps_per_iteration"),),
    "timesteps_per_iteration": (Ours("min_env_steps_per_iteration"),),
    "observation_filter": (Ours("normalize_observations", "true for MeanStdFilter"),),
    "normalize": (_NORMALIZE, Ours("normalize_observations", "true")),
    # What stands beside config.
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
    "n_eval_episodes": (Ours("evaluation.episodes", beside_config=True),),
    "evaluation_duration": (Ours("evaluation.episodes", beside_config=True),),
}
"""Settings of ours by a name elsewhere, the first that an algorithm has being meant."""


def ours_for(name: str, has: Callable[[str], bool], known: Iterable[str]) -> str:
    """Says what another library's setting is called here, also where its name is misspelt; "" if that is not known.

    Args:
        name: Its name there, or one that is nearer to it than to any of ours.
        has: Whether there is a setting of a dotted name in the config that it was written into; what stands beside an
            algorithm's config is known by its `gamma`.
        known: The names that may stand there.
    """
    if answer := _answer(name, has):
        return f"{name!r} {answer}"
    answered = [foreign for foreign in FOREIGN_SETTINGS if _answer(foreign, has)]
    near = difflib.get_close_matches(name, {*answered, *known}, n=1, cutoff=0.9)
    if not near or near[0] not in answered:
        return ""
    return f"unknown key {name!r}; '{near[0]}' {_answer(near[0], has)}"


def _answer(name: str, has: Callable[[str], bool]) -> str:
    for ours in FOREIGN_SETTINGS.get(name, ()):
        if has("gamma") if ours.beside_config else has(ours.name):
            place = f"`{ours.name}`, beside config," if ours.beside_config else f"'{ours.name}'"
            return f"is {place} here" + (f": {ours.conversion}" if ours.conversion else "")
    return ""
