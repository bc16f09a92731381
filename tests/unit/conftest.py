"""Fixtures of all unit tests."""

import pytest


@pytest.fixture
def traced_updates(monkeypatch):
    """Makes `compile: true` run graphs without compiling them: the C++ compiler takes 20 s for each.

    The learner's own tests check that compiled code does what its graph says.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    def traced(function, arguments, announce):
        graph = make_fx(function)(*(argument.clone() for argument in arguments))
        return lambda given: graph(*given)

    monkeypatch.setattr("rlrun.engine.learner.executors.compilation.compiled", traced)
    monkeypatch.setattr("rlrun.engine.training.assemble.learner_factory.may_have_kernels", lambda algorithm: False)
