# Every target sets up what it needs; a machine with Python 3.10+, git and make is enough.
PYTHON ?= python3
VENV ?= .venv
# Further arguments for installing torch, to choose among builds.
TORCH_ARGS ?=
BIN := $(VENV)/bin
SITE := import site; print(site.getsitepackages()[0])
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Pictures that tests take of pages, to be looked at.
export RLMEM_SCREENSHOTS ?= $(CURDIR)/build/screenshots

.DEFAULT_GOAL := help
.PHONY: help demo test unit browser ray truth long lint types golden golden-facts docs screenshots bench bench-buffers frameworks accuracy accuracy-rllib swarm-million clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

# torch first and exactly: any looser requirement may fetch another build. ElegantRL declares dependencies it does not
# need here (an old gym among them), so it comes alone. An SB3 from before the 2.7.1 change has a virtual environment of
# its own, which borrows everything else from this one.
$(VENV)/.truth: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet torch==2.13.0 $(TORCH_ARGS)
	$(BIN)/python -m pip install --quiet --editable '.[dev,truth]'
	$(BIN)/python -m pip install --quiet --no-deps elegantrl==0.3.6
	$(BIN)/python -m venv --without-pip $(VENV)/sb3-2.7.0
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $$($(VENV)/sb3-2.7.0/bin/python -c '$(SITE)') stable-baselines3==2.7.0
	$(BIN)/python -c '$(SITE)' > $$($(VENV)/sb3-2.7.0/bin/python -c '$(SITE)')/main.pth
	@touch $@

# Tests in the browser run by themselves: their servers and trainings are children of the test process for as long as it
# lives, and other tests measure that process with its children.
#
# The browser of tests/browser, of the screenshots and of one benchmark: Debian's. Where it cannot be installed, those
# tests are skipped and say so.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
$(VENV)/.browser: $(VENV)/.dev
	@command -v chromium >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium >/dev/null; } \
		|| echo "no Chromium, and none could be installed: tests/browser will be skipped"
	@touch $@

# RLlib wants a gymnasium of its own, older than the one everything else is tested with: a virtual environment that has Ray and
# what Ray pins, and borrows the rest.
RAY := $(VENV)/ray
$(VENV)/.ray: $(VENV)/.truth
	$(BIN)/python -m venv --without-pip $(RAY)
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target $$($(RAY)/bin/python -c '$(SITE)') --requirement tests/ray/requirements.txt
	$(BIN)/python -c '$(SITE)' | sed "s/.*/import site; site.addsitedir('&')/" > $$($(RAY)/bin/python -c '$(SITE)')/main.pth
	@touch $@

$(VENV)/.accuracy: $(VENV)/.truth
	$(BIN)/python -m pip install --quiet --editable '.[dev,truth,accuracy]'
	@touch $@

demo: $(VENV)/.core ## Set up and plan a real run: will SAC with a 400k camera buffer fit in 30 GB?
	@$(BIN)/rlmem plan pidog-sac --ram 30GB

test: $(VENV)/.truth $(VENV)/.browser $(VENV)/.ray ## Set up and run everything that must pass: lint, types, unit tests, measured truth
	$(BIN)/ruff check src tests benchmarks accuracy docs
	$(BIN)/ruff format --check src tests benchmarks accuracy docs
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not long and not browser' --durations 15
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'browser and not long'
	$(RAY)/bin/python -m pytest -q -n 2 --dist loadfile -m 'not long' tests/ray

ray: $(VENV)/.ray ## Only the tests that start Ray clusters on this machine
	$(RAY)/bin/python -m pytest -q -n 2 --dist loadfile -m 'not long' tests/ray

unit: $(VENV)/.dev ## Only the tests that need no torch (seconds)
	$(BIN)/python -m pytest -q -m 'not truth and not long and not browser'

browser: $(VENV)/.truth $(VENV)/.browser ## Only the tests that drive reports and pages with a real Chromium
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m browser

truth: $(VENV)/.truth ## Only the tests that measure the real thing in fresh processes
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'truth and not long and not browser'

long: $(VENV)/.truth $(VENV)/.browser $(VENV)/.ray ## Measured tests that 'make test' leaves out: more algorithms, sizes and stores
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m long
	$(RAY)/bin/python -m pytest -q -n 2 --dist loadfile -m long tests/ray

lint: $(VENV)/.dev ## Ruff
	$(BIN)/ruff check src tests benchmarks accuracy docs
	$(BIN)/ruff format --check src tests benchmarks accuracy docs

types: $(VENV)/.dev ## Mypy, strict
	$(BIN)/mypy

golden: $(VENV)/.dev ## Write tests/golden/data again: what every command printed; GOLDEN=plan/ writes a part
	PYTHONPATH=tests:. $(BIN)/python -m golden.write $(GOLDEN)

golden-facts: $(VENV)/.truth $(VENV)/.ray ## Make the dry runs behind tests/golden/dryruns.py for real, and keep what they say; 5 minutes; FACTS=sac makes one
	PYTHONPATH=tests:. $(BIN)/python -m golden.record $(FACTS)

docs: $(VENV)/.core ## Write the generated pages again (five-runs.md, rules.md) and tables
	$(BIN)/rlmem five-runs -o docs/five-runs.md
	$(BIN)/rlmem rule --pages -o docs/rules.md
	$(BIN)/python docs/tables.py

screenshots: $(VENV)/.truth $(VENV)/.browser ## Take the pictures of docs/browser.md again, with a real server and a real browser
	$(BIN)/python docs/screenshots.py

bench: $(VENV)/.truth $(VENV)/.browser $(VENV)/.ray ## Start-up, planning times, predicted against measured peaks, the cost of explain, watch, MemoryCallback and lint, the browser
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/placing.py
	$(BIN)/python benchmarks/peaks.py
	$(BIN)/python benchmarks/explaining.py
	$(RAY)/bin/python benchmarks/ray_explaining.py
	$(BIN)/python benchmarks/watching.py
	$(BIN)/python benchmarks/callback.py
	$(BIN)/python benchmarks/linting.py
	$(BIN)/python benchmarks/browser.py

$(VENV)/.bench-buffers: $(VENV)/.truth
	$(BIN)/python -m pip install --quiet --editable '.[dev,truth,bench-buffers]'
	@touch $@

# ONLY='pong:*' is a part; QUICK=1 a shorter run.
bench-buffers: $(VENV)/.bench-buffers ## Every buffer beside SB3's own and its peers, on real data; writes docs/buffers.md
	$(BIN)/python benchmarks/buffers.py --write-docs $(if $(ONLY),--only '$(ONLY)') $(if $(QUICK),--quick)

# ONLY='atari:*' is a part.
frameworks: $(VENV)/.ray $(VENV)/.accuracy ## The same tasks in SB3, a CleanRL-like loop, ElegantRL and RLlib (ten minutes), write docs/frameworks.md
	$(RAY)/bin/python benchmarks/frameworks.py --write-docs $(if $(ONLY),--only '$(ONLY)')

# The whole corpus takes hours; SHARD=1/6 is a part of it, ONLY='zoo:sac/*' are chosen entries, FRESH=1 does them again.
accuracy: $(VENV)/.accuracy ## Plan and measure the corpus, write docs/accuracy.md (SHARD=1/6 for a part)
	$(BIN)/python accuracy/run.py --write-docs $(if $(SHARD),--shard $(SHARD)) $(if $(ONLY),--only '$(ONLY)') $(if $(FRESH),--fresh)

accuracy-rllib: $(VENV)/.ray $(VENV)/.accuracy ## Plan and measure RLlib configurations by role (half an hour), write docs/accuracy.md
	$(RAY)/bin/python accuracy/rllib_run.py $(if $(ONLY),--only '$(ONLY)') $(if $(FRESH),--fresh)
	$(BIN)/python accuracy/run.py --only 'none' --write-docs

# One iteration of a million agents on the CPU: an hour on two cores. ARGS='--iterations 2' is more of it.
swarm-million: $(VENV)/.truth ## Train a million agents for one iteration on the CPU under a cap of 16 GiB (an hour)
	$(BIN)/rlmem run --max-ram 16GiB -- $(BIN)/python -m rlmem.swarm train --agents 1_000_000 --iterations 1 --minibatches 64 --ram 16GiB $(ARGS)

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
