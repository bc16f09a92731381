"""What unit tests share."""

import pytest


@pytest.fixture
def traced_updates(monkeypatch):
    """Has `compile: true` run the graph that would be compiled as it is: the C++ compiler takes 20 s for each.

    That compiled code does what its graph says is a matter of the learner's own tests.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    def traced(function, arguments, announce):
        graph = make_fx(function)(*(argument.clone() for argument in arguments))
        return lambda given: graph(*given)

    monkeypatch.setattr("rlrun.engine.learner.executors.compilation.compiled", traced)
    monkeypatch.setattr("rlrun.engine.training.assemble.learner_factory.may_have_kernels", lambda algorithm: False)
