"""Probabilistic ensemble of dynamics models (torch).

All members compute in one batched product. Rows are [S, L]: column l is for the l-th of the members that are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from rlrun.data.sample_batch import SampleBatch
from rlrun.nn.network_module import seeded

MEMBERS = "members."
"""Prefix of the names of the learned parameters, each [N, ...]."""

FIRST_LOG_VARIANCE_BOUNDS = (-10.0, 0.5)
"""Initial bounds of log-variances, in units of the targets' standard deviation."""

BOUNDS_WEIGHT = 0.01
"""Weight of the loss that pulls the bounds of log-variances together."""

Views = Mapping[str, Tensor]


class Ensemble(nn.Module):
    """Probabilistic ensemble: networks of the change of the observation and the reward, with Gaussian errors.

    Inputs and targets are normalised by moments that `FitModel` writes here, as it does the indices of the elites. No
    gradient moves those.

    Args:
        num_inputs: I, size of an observation and an action.
        num_targets: K, size of the targets.
        predicts_ends: Whether a further output is the logit of an episode's end.
        num_members: N.
        num_elites: Number of them that predict.
        hiddens: Widths of each network's layers.
        seed: Seed of the first weights.

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
    """Learned parameters of the members."""

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
    """Predictions of members for rows [S, L], targets in units of their standard deviation.

    Attributes:
        means: Of the targets, [S, L, K].
        log_variances: Of the targets, [S, L, K].
        end_logits: Logits of an episode's end, [S, L]; None if ends are not predicted.
    """

    means: Tensor
    log_variances: Tensor
    end_logits: Tensor | None


@dataclass(frozen=True)
class EnsembleOutputs:
    """An ensemble, as losses call it.

    Attributes:
        ensemble: The ensemble, a template.
        views: Its parameters by name.
    """

    ensemble: Ensemble
    views: Views

    def predict(self, inputs: Tensor, members: Tensor | None = None) -> Predictions:
        """Returns the members' predictions for inputs [S, L, I].

        Args:
            inputs: Observation and action, not normalised.
            members: Indices of the members, [L]; None for all of them in turn.
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
        """Negative log-likelihood of all members on rows [S, N], `loss`, and its mean squared errors, `mse`.

        The loss is the sum over members of the mean negative log-likelihood, times 2 and without its constant:
        (target - mean)^2 / variance + log variance; of 0.01 times the distance of the variances' bounds; and of the
        cross-entropy of ends (arXiv:1805.12114, section 4 and appendix A.1).

        Args:
            batch: `inputs` [S, N, I], `targets` [S, N, K], `terminateds` [S, N]; every row holds a transition.
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
        """Returns each member's mean squared error of normalised targets on the same rows, [N].

        Where ends are predicted, their mean cross-entropy is added.

        Args:
            batch: `inputs` [S, 1, I], `targets` [S, 1, K] and `terminateds` [S, 1].
        """
        predicted = self.predict(batch["inputs"].expand(-1, self.ensemble.num_members, -1))
        errors = (predicted.means - self.normalized(batch["targets"])).square().mean((0, 2))
        if predicted.end_logits is not None:
            errors = errors + cross_entropies(predicted.end_logits, batch["terminateds"]).mean(0)
        return errors

    def draw(self, batch: SampleBatch) -> dict[str, Tensor]:
        """Draws targets [S, L, K] of inputs [S, L, I] by standard normal `noise` [S, L, K].

        Args:
            batch: Beside these `members` [S, L], the number of the member that each column is for.

        Returns:
            `targets`, and in `end_logits` [S, L] logits of an episode's end if they are predicted.
        """
        predicted = self.predict(batch["inputs"], batch["members"][0])
        drawn = predicted.means + (0.5 * predicted.log_variances).exp() * batch["noise"]
        targets = {"targets": drawn * self.views["target_std"] + self.views["target_mean"]}
        return targets if predicted.end_logits is None else {**targets, "end_logits": predicted.end_logits}

    def normalized(self, targets: Tensor) -> Tensor:
        """Returns targets [..., K] in units of their standard deviation."""
        return (targets - self.views["target_mean"]) / self.views["target_std"]


def cross_entropies(logits: Tensor, happened: Tensor) -> Tensor:
    """Returns the cross-entropies log(1 + exp(logit)) - happened * logit of events [...] and their logits [...]."""
    return softplus(logits) - happened.float() * logits
