"""Setup of every test: its own Ray token, one thread, and no user modules left from earlier tests."""

import gc
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import hypothesis
import pytest
from threadpoolctl import threadpool_limits

# Set before anything imports ray, so that Ray writes no token into the user's home.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray runs its workers with niceness 15. When other work keeps all cores busy, they would take twenty times as long.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (the name is Ray's)

# Shells start background commands with Ctrl-C ignored, `nohup` starts them with SIGHUP ignored, and child processes
# inherit this. Tests send these signals, so they need the default handlers.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)

# A hypothesis example may take any amount of time on a busy machine.
hypothesis.settings.register_profile("rlrun", deadline=None)
hypothesis.settings.load_profile("rlrun")

pytest_plugins = ["tests.wording"]

EXAMPLES = Path(__file__).parents[1] / "examples"


# Imported modules and collected tests are never garbage. Searching them for garbage would take a sixth of the time.
gc.disable()


def pytest_collection_finish() -> None:
    """Exempts modules and collected tests from garbage collection, which takes 0.4 s to look at all of them."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Makes torch and BLAS use one thread, as trials do; several threads would spin while others use the cores."""
    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def _without_users_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unloads modules from examples/ or a temporary folder after a test; the next test may reuse their names."""
    last, import_path = next(reversed(sys.modules)), sys.path.copy()
    yield
    sys.path[:] = import_path
    users = (f"{EXAMPLES}{os.sep}", f"{tmp_path_factory.getbasetemp()}{os.sep}")
    for name in list(takewhile(lambda name: name != last, reversed(sys.modules))):  # modules that the test imported
        spec = getattr(sys.modules[name], "__spec__", None)  # modules made by C code may have none
        places = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
        if any(f"{place}{os.sep}".startswith(users) for place in places):
            del sys.modules[name]
