# Everything one does with this repository. Each target sets up what it needs; `make` lists them.

# The Python to make .venv with, such as python3.13; by default 3.11, as MXNet has no later release.
PYTHON ?=
BIN := .venv/bin

# Stamps: set up once, and again when what is installed changes.
CORE := .venv/.core
FULL := .venv/.full
FUZZ := .venv/.fuzz
SERVERS := .cache/.servers
CLIENTS := .cache/.clients
JUDGES := .cache/.judges
INPUTS := pyproject.toml tests/constraints.txt scripts/setup.sh

# A .venv of another version than the one that is named is made again.
ifneq ($(PYTHON),)
ifneq ($(shell $(PYTHON) -V),$(shell $(BIN)/python -V 2>/dev/null))
$(shell rm -f $(CORE) $(FULL) $(FUZZ))
endif
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test check style bench judges fuzz soak docs dist clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(FULL) ## Make .venv with dsprep, MXNet, TensorFlow, webdataset and the tools

demo: $(CORE) ## Draw a small data set and pack it into all three formats
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo.sh build/demo

# Tests wait for processes and servers now and then: two more at once than there are cores. They start
# many: without bytecode on the disk, each compiles dsprep, which takes as long as a small run.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -u -m pytest -q \
	--dist worksteal --maxprocesses 4 -n $$(($$(getconf _NPROCESSORS_ONLN) + 2))

test: $(FULL) $(SERVERS) ## Run all tests, against the real frameworks, S3 servers and Chromium
	@$(PYTEST)

check: style $(SERVERS) ## Check style, types, imports and docs
	@$(PYTEST) tests/house

style: $(FULL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A part, ONLY=copy; at most RUNS=1 of each contender; photographs of SIZE=20GB in all; images of your
# own, DATA='photos=FOLDER small=FOLDER'.
bench: $(FULL) $(SERVERS) $(CLIENTS) $(JUDGES) ## Measure dsprep against its peers; ONLY=copy measures a part
	$(BIN)/python -m scripts.bench $(ONLY:%=--only %) $(RUNS:%=--runs %) $(SIZE:%=--size %) \
		$(DATA:%=--data %)

judges: $(FULL) $(JUDGES) ## Let MosaicML Streaming, litdata and Energon read what dsprep writes, and dsprep theirs
	@$(BIN)/python -m scripts.judges

fuzz: $(FUZZ) ## Read what a fuzzer makes up, each format for a minute; try new examples of properties
	@$(BIN)/python -m scripts.fuzz
	@$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile explore tests

soak: $(FULL) ## Write data sets in parts that are killed, stopped, or given twice; ROUNDS=50
	@$(BIN)/python -m scripts.soak $(ROUNDS:%=--rounds %)

docs: $(FULL) ## Build the site from docs/ and docstrings, in build/site, and man pages
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.demo_svg
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

dist: $(CORE) ## Build wheel and sdist in dist/, and check them
	@scripts/setup.sh dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean: ## Delete .venv and everything that was made
	rm -rf .cache .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find dsprep scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(CORE): $(INPUTS)
	@PYTHON='$(PYTHON)' scripts/setup.sh core
	@touch $@

# It is made by the script, if nothing is missing.
$(FULL): $(INPUTS)
	@PYTHON='$(PYTHON)' scripts/setup.sh full
	@touch $(CORE)

$(FUZZ): $(FULL)
	@scripts/setup.sh fuzz
	@touch $@

$(CLIENTS): scripts/setup.sh | $(FULL)
	@scripts/setup.sh clients
	@touch $@

$(JUDGES): scripts/setup.sh | $(FULL)
	@TORCH='$(TORCH)' scripts/setup.sh judges
	@touch $@

# It is made by the script, if all servers and Chromium are there.
$(SERVERS): scripts/servers.sh | $(FULL)
	@scripts/servers.sh
