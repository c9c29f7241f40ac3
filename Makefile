# Everything a person runs here. `make` alone explains itself.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tools that inspect the virtualenv from outside.
TOOLS := build/tools/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test nightly coverage check lint types proto docs dist chaos fuzz bench screenshots learn compose-test audit sbom clean

# Lists each target with a `##` under its heading `##@`; the others are in CONTRIBUTING.md.
help:
	@awk -F ':.*## ' '/^##@/{printf "%s%s\n", gap, substr($$0, 5); gap = "\n"} \
	  /^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "seldom: coverage, compose-test, audit, sbom (CONTRIBUTING.md)"

##@ every day
run: $(VENV)/.stack ## install, start everything here, train a small run and show it
	$(BIN)/runspine train examples/ppo_cartpole.yaml --set total_steps=100_000

# Tests wait for processes much of the time, so more of them than cores run at once; promises in seconds follow, with
# nothing else running. Each test runs once.
JOBS ?= 6
# The tests of a file share a stack and stay together, in the order of folders: unit tests fill the gaps at the end.
SHARED := --dist loadfile --no-loadscope-reorder
# Modules are compiled once, not by each of the thousands of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

test: $(VENV)/.dev ## run the tests (ten minutes on two cores)
	$(BIN)/python -m pytest -q -m "not alone and not long" -n $(JOBS) $(SHARED)
	$(BIN)/python -m pytest -q -m "alone and not long" $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)

# Lines and branches of the pure core (pyproject.toml names it) that the unit tests execute.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 $(SHARED) --cov --cov-report=term tests/unit

check: lint types test ## style, types and tests: what CI runs, fastest first

# Style, layering, and that generated files are up to date.
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.drift
	$(BIN)/python -m tests.tools.imports
	$(BIN)/python -m tests.tools.walks
	$(BIN)/python -m tests.tools.house

types: $(VENV)/.dev
	$(BIN)/mypy

proto: $(VENV)/.dev ## generate runspine/wire from proto/, and what is drawn from the code
	$(BIN)/python -m tests.drift --write

docs: $(VENV)/.dev ## the docs as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "look at it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

dist: $(VENV)/.dev ## the wheel and the sdist, in dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove the virtualenv and everything built; var/ is kept
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

##@ proofs, minutes to hours
# `quick` takes minutes; `full` a quarter of an hour, and it wants the machine alone. PEERS is a Python that has runspine/bench/peers.txt.
SIZE ?= quick
PEERS ?= build/peers/bin/python

bench: $(VENV)/.dev $(if $(filter build/peers/%,$(PEERS)),build/peers/.asked) ## measure everything, with other tools for comparison, into build/bench: make bench SIZE=full
	$(BIN)/runspine bench report --size $(SIZE) --peers $(PEERS)

# How long `make chaos` goes on, and each target of `make fuzz`; the seed of chaos, another each time when none is given.
SECONDS ?= 600
SEED ?=
# `box`: one of each service. `cluster`: the replicas of deploy/k8s/base on hosts of their own; needs root.
# OLDER is a Python with an older release, which services of the cluster are changed to and back.
TOPOLOGY ?= box
PARTITIONS ?= 1
OLDER ?=

chaos: $(VENV)/.dev ## break everything at random: make chaos SECONDS=1800 SEED=7 TOPOLOGY=cluster
ifeq ($(TOPOLOGY),cluster)
	$(BIN)/python -m tests.chaos.cluster --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --partitions $(PARTITIONS) --older "$(OLDER)"
else
	RUNSPINE_CHAOS_SECONDS=$(SECONDS) RUNSPINE_CHAOS_SEED=$(SEED) $(BIN)/python -m pytest -m chaos -q -s tests/chaos/mixed
endif

fuzz: $(VENV)/.dev ## hostile input for each reader, SECONDS=600 long; what breaks one is kept in tests/corpus
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

nightly: $(VENV)/.dev ## every proof that `make test` leaves out, with a table of what ran, passed and could not run
	$(BIN)/python -m tests.tools.nightly --seconds $(SECONDS)

learn: $(VENV)/.dev ## train every built-in algorithm and print its returns next to the published ones (an hour)
	$(BIN)/python -m runspine.bench.trainers.learn

# The image built, all of docker-compose.yml run, every container restarted: half an hour.
compose-test: $(VENV)/.dev
	RUNSPINE_COMPOSE_TEST=1 RUNSPINE_COMPOSE_CACHE=build/compose $(BIN)/python -m pytest tests/integration/deploy/test_deploy_compose.py -q -s

screenshots: $(VENV)/.dev ## take pictures of every view of the web page, into docs/images
	$(BIN)/python -m runspine.bench.pages.screenshots

# Known vulnerabilities of what is installed; fails when it could not audit everything, so it needs the network.
audit: $(VENV)/.dev $(TOOLS)/pip-audit
	$(BIN)/python -m tests.tools.audit $(TOOLS)/pip-audit $(VENV)/lib/python3.11/site-packages

# A CycloneDX list of what is installed, in build/sbom.json.
sbom: $(TOOLS)/pip-audit
	$(TOOLS)/cyclonedx-py environment $(BIN)/python --of JSON -o build/sbom.json

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

$(VENV)/.stack: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) …"
	$(PIP) -e ".[stack]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) …"
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/.stack

$(TOOLS)/pip-audit:
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check pip-audit cyclonedx-bom || \
	  { echo "could not install pip-audit and cyclonedx-bom into build/tools: nothing was audited" >&2; exit 1; }

# Without the network they are missing, and the report names them as missing.
build/peers/.asked: runspine/bench/peers.txt
	$(PYTHON) -m venv build/peers
	-build/peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
