# On a new machine with Python 3.11 or newer, run `make train` or `make test`. `make help` lists the other targets.
#
# PYTHON=python3.12       the Python that creates .venv
# EXTRAS=atari,mujoco     extras for `make install` (see docs/install.md)
# TORCH_INDEX_URL=...     install torch from this package index, for example one without CUDA packages
# CONSTRAINTS=            install the newest allowed versions instead of the tested ones
# UV=                     install with pip even if uv is available
# SPEC=FILE               the spec that `make train` trains
# PYTEST_ARGS="-x -k gae" arguments for pytest
# TEST_PROCESSES=2        number of processes that `make test` runs test files in

PYTHON ?= python3
EXTRAS ?=
TORCH_INDEX_URL ?=
CONSTRAINTS ?= constraints.txt
UV ?= $(shell command -v uv 2>/dev/null)
SPEC ?= configs/cartpole/ppo.yaml
PYTEST_ARGS ?=
TEST_PROCESSES ?= 2
# For `make regress`: SEEDS=n runs the seeds 0 to n - 1 instead of those in each spec; REGRESS_SPECS names other files.
SEEDS ?=
REGRESS_SPECS ?= $(shell grep -l '^ *expect:' configs/*/*.yaml)

# What `make format` formats besides code; it leaves AGENTS.md and the text of notebooks unchanged.
GUIDES := README.md CONTRIBUTING.md SECURITY.md docs benchmarks examples scripts

VENV := .venv
BIN = $(VENV)/bin
ifeq ($(strip $(UV)),)
MAKE_VENV = "$(PYTHON)" -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check
else
MAKE_VENV = "$(UV)" venv --quiet --allow-existing --python "$(PYTHON)" $(VENV)
INSTALL = "$(UV)" pip install --python $(BIN)/python
endif
CONSTRAINED = $(if $(strip $(CONSTRAINTS)),--constraint $(CONSTRAINTS))

.DEFAULT_GOAL := help
.PHONY: help install train test test-loggers test-peers test-tensors test-kernels test-oldest test-newest cuda check docs format regress regress-quick results wording chaos slurm release-check

help:
	@echo "make install        create .venv with rlrun in it (the command is .venv/bin/rlrun)"
	@echo "make train          install rlrun, then train PPO on CartPole (SPEC=FILE trains another spec)"
	@echo "make test           install the development tools, then run the quick tests (15 minutes on two cores)"
	@echo "make check          check formatting, lint, types, and the layers of imports"
	@echo "make format         format the code and the documentation"
	@echo "make docs           build the documentation as a website in build/docs/html"
	@echo
	@echo "make regress        train all specs in configs/ that have targets, and check the targets (hours)"
	@echo "make regress-quick  the same for the short specs in configs/regression/, and test their gates (minutes)"
	@echo "make results        train all specs that have targets on up to ten seeds, and write docs/results.md (days)"
	@echo "make chaos          kill and interrupt runs at random moments, resume them, and compare the results (2 hours)"
	@echo "make cuda           run the tests that need a GPU (minutes)"
	@echo "make slurm          run the Slurm recipes on a one-machine Slurm, and interrupt a job (30 minutes; needs root and Slurm)"
	@echo "make test-loggers   install wandb and mlflow, and run the tests that need them"
	@echo "make test-peers     compare updates with Stable-Baselines3, in a separate environment (minutes)"
	@echo "make test-tensors   run the tests that need gymnax, Brax, MuJoCo Playground or rsl_rl, in a separate environment (minutes)"
	@echo "make test-kernels   compare the results of the matrix kernels of different processors, and run sanitizers (30 minutes)"
	@echo "make test-oldest    test with the oldest allowed versions of all dependencies, in a separate environment (minutes)"
	@echo "make test-newest    the same with the newest; PYTHON=python3.13 uses another Python (minutes)"
	@echo "make wording        record the current messages in tests/wording.yaml, with which tests compare them (minutes)"
	@echo "make release-check  build the sdist and the wheel, and try the wheel and each extra in empty environments (30 minutes)"
	@echo
	@echo "The top of the Makefile explains its variables."

install: $(VENV)/.installed-$(or $(strip $(EXTRAS)),plain)

train: $(VENV)/.installed-plain
	$(BIN)/rlrun train -f $(SPEC)

# In the order of their folders, the test files that take minutes come first, and many small ones keep all processes
# busy at the end.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-loggers: $(VENV)/.installed-dev,wandb,mlflow
	$(BIN)/python -m pytest -m services $(PYTEST_ARGS)

test-peers: VENV = .venv-peers
test-peers:
	$(MAKE_VENV)
	$(INSTALL) $(CONSTRAINED) --editable '.[mujoco,test]' stable-baselines3==2.9.2 sb3-contrib==2.9.2
	$(BIN)/python -m pytest -m peers tests/peers $(PYTEST_ARGS)

# gymnax needs an older gymnasium than the one in constraints.txt; it also needs six but does not declare it.
TENSOR_PACKAGES := gymnax==1.0.1 six brax==0.14.2 playground==0.2.0 rsl-rl-lib==5.5.1 jax==0.10.2

test-tensors: VENV = .venv-tensors
test-tensors:
	$(MAKE_VENV)
	$(INSTALL) --editable '.[test]' $(TENSOR_PACKAGES)
	JAX_PLATFORMS=cpu $(BIN)/python -m pytest -m tensors tests/tensors $(PYTEST_ARGS)

test-kernels: $(VENV)/.installed-dev
	$(BIN)/python -m scripts.test_under_kernels

# The oldest and the newest dependencies that pyproject.toml allows, each in a separate environment that is recreated.
BOUNDS_EXTRAS := atari,mujoco,video,plot,optuna,marl,popgym,minigrid,minari,serve,openenv,export,test
BOUNDS_TESTS := tests/integration/test_resumed_runs.py tests/unit/engine/checkpoint tests/unit/engine/datasets tests/unit/deploy/export

test-oldest: VENV = .venv-oldest
test-oldest: RESOLUTION = --resolution lowest-direct
test-newest: VENV = .venv-newest
test-oldest test-newest:
	$(if $(RESOLUTION),@test -n "$(strip $(UV))" || { echo "make $@ needs uv: pip cannot install the oldest versions"; exit 1; })
	rm -rf $(VENV)
	$(MAKE_VENV)
	$(INSTALL) $(RESOLUTION) --editable '.[$(BOUNDS_EXTRAS)]'
	$(BIN)/python -m pytest -q $(BOUNDS_TESTS) $(PYTEST_ARGS)

cuda: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/cuda $(PYTEST_ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The `docs` extra suffices; `dev` includes it.
docs: $(VENV)/.installed-$(if $(wildcard $(VENV)/.installed-dev),dev,docs)
	$(BIN)/python -m scripts.docs_site

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mdformat $(GUIDES)

regress: $(VENV)/.installed-dev
	$(BIN)/rlrun regress $(addprefix --seeds ,$(SEEDS)) $(addprefix -f ,$(REGRESS_SPECS))
	$(BIN)/python -m pytest -m regress $(PYTEST_ARGS)

# The control runs even if a gate was missed; the target fails if either command fails.
regress-quick: $(VENV)/.installed-dev
	$(BIN)/rlrun regress -f configs/regression/ --executor local || status=$$?; \
	$(BIN)/rlrun regress -f configs/regression/ --executor local --control && exit $${status:-0}

# After an interruption, run it again to continue. A spec is trained again if its text or the code has changed.
results: $(VENV)/.installed-dev
	$(BIN)/python -m scripts.results train
	$(BIN)/python -m scripts.results_paired
	$(BIN)/python -m scripts.results write

# PYTEST_ARGS=tests/unit/cli restricts it to some of the tests.
wording: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q --write-wording $(PYTEST_ARGS)

chaos: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m chaos tests/chaos tests/integration $(PYTEST_ARGS)
	DAMAGE_STRIDE=1 $(BIN)/python -m pytest tests/integration/test_hostile_checkpoints.py $(PYTEST_ARGS)

slurm: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slurm -rs tests/slurm $(PYTEST_ARGS)

release-check: $(VENV)/.installed-dev
	$(BIN)/python -m scripts.release_check --dist dist --extras

# The stamps are empty files. While they are newer than what they depend on, nothing is installed again.

$(VENV)/.made:
	@"$(PYTHON)" -c 'import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and "rlrun needs Python 3.11 or newer, but \"$(PYTHON)\" is " + v + ". Choose another one: make PYTHON=python3.12 ...")'
	$(MAKE_VENV)
	@touch $@

$(VENV)/.installed-%: pyproject.toml $(CONSTRAINTS) | $(VENV)/.made
	$(if $(strip $(TORCH_INDEX_URL)),$(INSTALL) $(CONSTRAINED) --index-url "$(TORCH_INDEX_URL)" torch)
	$(INSTALL) $(CONSTRAINED) --editable '.$(if $(filter-out plain,$*),[$*])'
	@touch $(VENV)/.installed-plain $@
