import pytest
import torch
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Normal, kl_divergence

from rlrun.engine.policy.action_spaces.box import DiagonalGaussian
from rlrun.engine.policy.action_spaces.discrete import Categorical
from rlrun.engine.policy.action_spaces.multi_binary import Bernoulli
from rlrun.engine.policy.action_spaces.multi_discrete import MultiCategorical


def random_doubles(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


CASES = {
    "categorical": (Categorical, lambda x: [TorchCategorical(logits=x)]),
    "several choices": (
        lambda x: MultiCategorical(x, (2, 4)),
        lambda x: [TorchCategorical(logits=part) for part in x.split([2, 4], -1)],
    ),
    "yes or no": (Bernoulli, lambda x: [TorchBernoulli(logits=part) for part in x.unbind(-1)]),
    "gaussian": (
        DiagonalGaussian,
        lambda x: [
            Normal(mean, scale.exp()) for mean, scale in zip(x[..., :3].unbind(-1), x[..., 3:].unbind(-1), strict=True)
        ],
    ),
}


@pytest.mark.parametrize(("ours", "theirs"), CASES.values(), ids=CASES)
def test_divergences_and_entropies_agree_with_torchs(ours, theirs):
    first, second = random_doubles(1, 5, 2, 6), random_doubles(2, 5, 2, 6)
    expected = sum(kl_divergence(p, q) for p, q in zip(theirs(first), theirs(second), strict=True))
    torch.testing.assert_close(ours(first).kl(ours(second)), expected)
    torch.testing.assert_close(ours(first).entropy(), sum(p.entropy() for p in theirs(first)))


@pytest.mark.parametrize("make", [make for make, _ in CASES.values()], ids=CASES)
def test_like_makes_a_distribution_that_equals_a_new_one_of_the_same_kind(make):
    outputs = random_doubles(3, 4, 6)
    found = make(random_doubles(4, 4, 6)).like(outputs)
    torch.testing.assert_close(found.outputs, outputs)
    torch.testing.assert_close(found.kl(make(outputs)), torch.zeros(4, dtype=torch.float64))
