"""Probabilistic ensemble of dynamics models (torch).

All members are evaluated by one batched matrix product. Inputs are [S, L, I]; each of the L columns is the input of one
member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.network_module import seeded

MEMBERS = "members."
"""Name prefix of the learned parameters, each [N, ...] over N members."""

FIRST_LOG_VARIANCE_BOUNDS = (-10.0, 0.5)
"""Initial lower and upper bound of predicted log-variances, for normalized targets."""

BOUNDS_WEIGHT = 0.01
"""Weight of the regularizer that narrows the learned bounds of log-variances."""

Views = Mapping[str, Tensor]


class Ensemble(nn.Module):
    """Probabilistic ensemble of dynamics models: each network predicts a Gaussian of state change and reward.

    Moments for the normalization of inputs and targets, and the elites' indices, are set by `FitModel` and have no
    gradient.

    Args:
        num_inputs: Size I of an observation and an action, concatenated.
        num_targets: Size K of the targets.
        predicts_ends: Whether an additional output is the logit of termination.
        num_members: Number of members, N.
        num_elites: Number of members used for predictions: those with the smallest holdout errors.
        hiddens: Widths of the hidden layers.
        seed: Seed for the initial weights.

    Source:
        Chua et al., "Deep reinforcement learning in a handful of trials", arXiv:1805.12114, section 4 and appendix A.
    """

    def __init__(
        self,
        num_inputs: int,
        num_targets: int,
        *,
        predicts_ends: bool,
        num_members: int,
        num_elites: int,
        hiddens: Sequence[int],
        seed: int,
    ) -> None:
        super().__init__()
        self.num_targets = num_targets
        self.predicts_ends = predicts_ends
        self.num_members = num_members
        self.input_mean = _held(torch.zeros(num_inputs))
        self.input_std = _held(torch.ones(num_inputs))
        self.target_mean = _held(torch.zeros(num_targets))
        self.target_std = _held(torch.ones(num_targets))
        self.elites = _held(torch.arange(num_elites).float())
        widths = (num_inputs, *hiddens, 2 * num_targets + predicts_ends)
        with seeded(seed):
            self.members = _Members(num_members, num_targets, widths)


class _Members(nn.Module):
    """Learned parameters of all ensemble members, stacked over members."""

    def __init__(self, number: int, num_targets: int, widths: Sequence[int]) -> None:
        super().__init__()
        layers = list(pairwise(widths))
        self.weights = nn.ParameterList(
            nn.init.trunc_normal_(
                torch.empty(number, inputs, outputs), std=0.5 * inputs**-0.5, a=-(inputs**-0.5), b=inputs**-0.5
            )
            for inputs, outputs in layers
        )
        self.biases = nn.ParameterList(torch.zeros(number, 1, outputs) for _, outputs in layers)
        low, high = FIRST_LOG_VARIANCE_BOUNDS
        self.min_log_variance = nn.Parameter(torch.full((number, 1, num_targets), low))
        self.max_log_variance = nn.Parameter(torch.full((number, 1, num_targets), high))


def _held(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)


@dataclass(frozen=True)
class Predictions:
    """Predictions of the ensemble members: Gaussians of the normalized targets, and logits of termination.

    Attributes:
        means: Means of the normalized targets, [S, L, K].
        log_variances: Log-variances of the normalized targets, [S, L, K].
        end_logits: Logits of termination, [S, L]; None if termination is not predicted.
    """

    means: Tensor
    log_variances: Tensor
    end_logits: Tensor | None


@dataclass(frozen=True)
class EnsembleOutputs:
    """Ensemble of dynamics models, as losses use it: evaluated with given parameters.

    Attributes:
        ensemble: Ensemble module, whose own parameter values are unused.
        views: Parameters of the ensemble by name.
    """

    ensemble: Ensemble
    views: Views

    def predict(self, inputs: Tensor, members: Tensor | None = None) -> Predictions:
        """Predicted Gaussians of the normalized targets; column l is predicted by one ensemble member.

        Args:
            inputs: Unnormalized observations and actions, [S, L, I].
            members: Member index of each column, [L]; None for all N members in order (L = N).
        """
        views, number = self.views, self.ensemble.num_targets

        def of_members(name: str) -> Tensor:
            parameters = views[f"{MEMBERS}{name}"]
            return parameters if members is None else parameters[members]

        hidden = ((inputs - views["input_mean"]) / views["input_std"]).transpose(0, 1)
        layers = len(self.ensemble.members.weights)
        for layer in range(layers):
            hidden = hidden.bmm(of_members(f"weights.{layer}")) + of_members(f"biases.{layer}")
            if layer < layers - 1:
                hidden = silu(hidden)
        low, high = of_members("min_log_variance"), of_members("max_log_variance")
        log_variances = high - softplus(high - hidden[..., number : 2 * number])
        log_variances = low + softplus(log_variances - low)
        return Predictions(
            hidden[..., :number].transpose(0, 1),
            log_variances.transpose(0, 1),
            hidden[..., -1].transpose(0, 1) if self.ensemble.predicts_ends else None,
        )

    def losses(self, batch: SampleBatch) -> dict[str, Tensor]:
        """Gaussian negative log-likelihood of all members, `loss`, and their mean squared error, `mse`.

        A member's loss is the mean of (target - mean)^2 / variance + log variance: twice the negative log-likelihood,
        up to a constant. The regularizer of the log-variance bounds (weight 0.01) and the cross-entropy of termination
        are added, and everything is summed over members (arXiv:1805.12114, section 4 and appendix A.1).

        Args:
            batch: `inputs` [S, N, I], `targets` [S, N, K], `terminateds` [S, N]; column n trains member n.
        """
        predicted = self.predict(batch["inputs"])
        squares = (predicted.means - self.normalized(batch["targets"])).square()
        likelihoods = squares * (-predicted.log_variances).exp() + predicted.log_variances
        bounds = self.views[f"{MEMBERS}max_log_variance"] - self.views[f"{MEMBERS}min_log_variance"]
        loss = likelihoods.mean((0, 2)).sum() + BOUNDS_WEIGHT * bounds.sum()
        if predicted.end_logits is not None:
            loss = loss + cross_entropies(predicted.end_logits, batch["terminateds"]).mean(0).sum()
        return {"loss": loss, "mse": squares.mean()}

    def errors(self, batch: SampleBatch) -> Tensor:
        """Holdout error [N] of each member: mean squared error of normalized targets on shared transitions.

        If termination is predicted, the mean cross-entropy of termination is added.

        Args:
            batch: `inputs` [S, 1, I], `targets` [S, 1, K] and `terminateds` [S, 1].
        """
        predicted = self.predict(batch["inputs"].expand(-1, self.ensemble.num_members, -1))
        errors = (predicted.means - self.normalized(batch["targets"])).square().mean((0, 2))
        if predicted.end_logits is not None:
            errors = errors + cross_entropies(predicted.end_logits, batch["terminateds"]).mean(0)
        return errors

    def draw(self, batch: SampleBatch) -> dict[str, Tensor]:
        """Samples unnormalized targets from the predicted Gaussians, one ensemble member per column.

        Args:
            batch: `inputs` [S, L, I], standard normal `noise` [S, L, K], and `members` [S, L], constant over S.

        Returns:
            `targets` [S, L, K], and logits of termination `end_logits` [S, L] if they are predicted.
        """
        predicted = self.predict(batch["inputs"], batch["members"][0])
        drawn = predicted.means + (0.5 * predicted.log_variances).exp() * batch["noise"]
        targets = {"targets": drawn * self.views["target_std"] + self.views["target_mean"]}
        return targets if predicted.end_logits is None else {**targets, "end_logits": predicted.end_logits}

    def normalized(self, targets: Tensor) -> Tensor:
        """Normalizes targets [..., K] to mean 0 and standard deviation 1."""
        return (targets - self.views["target_mean"]) / self.views["target_std"]


def cross_entropies(logits: Tensor, happened: Tensor) -> Tensor:
    """Binary cross-entropy log(1 + exp(logit)) - happened * logit, [...].

    Args:
        logits: Logits of the events, [...].
        happened: Flags of the events, [...].
    """
    return softplus(logits) - happened.float() * logits
