import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rlrun.learner.graph_rewrites import REWRITES, rational_tanh, turn_narrow_products
from tests.rounding import rounding_error


def test_the_rational_tanh_is_tanh_to_the_accuracy_of_float32():
    x = torch.cat([torch.linspace(-12, 12, 100_001), torch.logspace(-30, 1, 1001), torch.tensor([0.0, -0.0, 1e30])])
    error = (rational_tanh(x).double() - x.double().tanh()).abs()
    assert error.max() < 5e-7
    assert rational_tanh(x).abs().max() <= 1.0
    small = torch.logspace(-30, -3, 100)
    torch.testing.assert_close(rational_tanh(small), small, rtol=rounding_error(13 + 6), atol=0)


def test_the_rational_tanh_of_bfloat16_is_rounded_once():
    x = torch.linspace(-12, 12, 1001).bfloat16()
    assert rational_tanh(x).dtype == torch.bfloat16
    assert (rational_tanh(x).double() - x.double().tanh()).abs().max() < 2**-8


def test_a_tall_and_narrow_product_is_turned_and_its_result_stays():
    def of_turned(left, right):
        return left.t() @ right

    def plain(left, right):
        return left @ right

    cases = [
        (of_turned, torch.randn(32, 64), torch.randn(32, 4), True),  # the gradient of a first layer's weights
        (of_turned, torch.randn(32, 4), torch.randn(32, 64), False),
        (plain, torch.randn(64, 32), torch.randn(32, 4), True),  # the gradient of a first layer's inputs
        (plain, torch.randn(64, 32), torch.randn(32, 1), False),  # one column is a product with a vector
        (plain, torch.randn(64, 32), torch.randn(32, 40), False),
    ]
    for product, left, right, turned in cases:
        graph = make_fx(product)(left, right)
        turn_narrow_products(graph)
        torch.testing.assert_close(graph(left, right), product(left, right))
        assert graph(left, right).is_contiguous()
        shapes = [node.meta.get("tensor_meta") for node in graph.graph.nodes if "mm" in str(node.target)]
        assert (shapes == [None]) is turned  # an inserted product carries no noted shape


def test_a_layer_traced_with_the_rewrites_is_product_and_sum_to_the_last_bit():
    arguments = torch.randn(8, 3), torch.randn(5, 3), torch.randn(5)
    traced = make_fx(torch.nn.functional.linear, decomposition_table=REWRITES)(*arguments)
    assert not [node for node in traced.graph.nodes if node.target is torch.ops.aten.addmm.default]
    inputs, weight, bias = arguments
    assert torch.equal(traced(*arguments), inputs @ weight.t() + bias)
