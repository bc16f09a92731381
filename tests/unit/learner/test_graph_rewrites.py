import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rlrun.learner.graph_rewrites import rational_tanh, turn_narrow_products


def test_the_rational_tanh_is_tanh_to_the_accuracy_of_float32():
    x = torch.cat([torch.linspace(-12, 12, 100_001), torch.logspace(-30, 1, 1001), torch.tensor([0.0, -0.0, 1e30])])
    error = (rational_tanh(x).double() - x.double().tanh()).abs()
    assert error.max() < 5e-7
    assert rational_tanh(x).abs().max() <= 1.0
    small = torch.logspace(-30, -3, 100)
    torch.testing.assert_close(rational_tanh(small), small, rtol=1e-5, atol=0)


def test_the_rational_tanh_of_bfloat16_is_rounded_once():
    x = torch.linspace(-12, 12, 1001).bfloat16()
    assert rational_tanh(x).dtype == torch.bfloat16
    assert (rational_tanh(x).double() - x.double().tanh()).abs().max() < 2**-8


def test_a_tall_and_narrow_product_is_turned_and_its_result_stays():
    def product(left, right):
        return left.t() @ right

    tall, flat = (torch.randn(32, 64), torch.randn(32, 4)), (torch.randn(32, 4), torch.randn(32, 64))
    for arguments, turned in ((tall, True), (flat, False)):
        graph = make_fx(product)(*arguments)
        turn_narrow_products(graph)
        torch.testing.assert_close(graph(*arguments), product(*arguments))
        assert graph(*arguments).is_contiguous()
        shapes = [node.meta.get("tensor_meta") for node in graph.graph.nodes if "mm" in str(node.target)]
        assert (shapes == [None]) is turned  # an inserted product carries no noted shape
