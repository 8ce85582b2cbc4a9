# What a person types; `make` alone lists it. The environment is .venv, and nothing outside it is installed.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

ifeq ($(OS),Windows_NT)
$(error Only Linux is supported; Windows runs it under WSL)
endif

# The first interpreter of a supported version; `make clean setup PYTHON=/path/to/python3.12` takes another.
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c '$(FITS)' 2>/dev/null && { echo $$python; exit; }; done; echo python3)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup native bench quick test test-all test-gpu gpu lint evidence report clean

help: ## list these targets
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }'

setup: $(INSTALLED) ## make .venv with the pinned versions (about 3 GB the first time)

# The stamp is written last, so an interrupted or failed install is done again.
$(INSTALLED): pyproject.toml harness/constraints.txt
	@rm -f $@
	@command -v $(PYTHON) >/dev/null || { \
		echo "No $(PYTHON) found. Install Python 3.11, 3.12 or 3.13, or name one: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c '$(FITS)' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11, 3.12 or 3.13 is needed."; \
		echo "Install one, or name it: make setup PYTHON=/path/to/python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) has no venv. On Debian and Ubuntu: apt-get install python3-venv (as root)"; exit 1; }
	@$(BIN)/python -c '$(FITS)' 2>/dev/null || { echo "making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing torch and all else into $(VENV): about 3 GB; silent for two minutes, or longer on a slow line"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c harness/constraints.txt -e '.[dev]' || { \
		echo "The installation failed; the lines above say why. Mend that, then go on with: make setup"; exit 1; }
	@touch $@
	@echo "$(VENV) is ready"

native: setup ## fetch optional native libraries without root (jemalloc, tcmalloc, numactl, Intel OpenMP)
	@echo "fetching the optional native libraries that are missing: up to 50 MB, a few seconds"
	@$(BIN)/python -P -m tipbench.machine.native

BUDGET := 45m
NAMES :=

bench: setup native measure ## measure every tip that can run here, then report (45 minutes; another time: BUDGET=2h)

quick: BUDGET := 5m
quick: setup native measure ## the same in 5 minutes: whole jobs of the tips that pay most first

# The report is written even if some pair failed (status 1); the run's own status is what make ends with.
.PHONY: measure
measure:
	@$(BIN)/tipbench run $(NAMES) --budget $(BUDGET); status=$$?; \
	if [ $$status -le 1 ]; then $(BIN)/tipbench report --format md --format html --out reports || exit; fi; \
	exit $$status

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --benchmark-disable

test: setup native ## run the tests that one waits for after a change (3 to 5 minutes on 2 cores)
	@$(PYTEST) -m "not slow"

test-all: setup native ## run all others: whole jobs, wikis, browsers, simulations (20 minutes)
	@$(PYTEST) -m slow

# Warnings are shown and not errors: what else torch warns of on a card is not known, and says nothing about the work.
# Four at a time: each holds a context on the card.
test-gpu: setup ## the checks of every pair on this machine's GPU, at tiny size
	@TIPBENCH_TEST_DEVICE=cuda $(BIN)/python -m pytest tests/test_pairs.py -n 4 --benchmark-disable -W default

# Time on a GPU may be short, so a run begins with what its owners ask (FOREMOST_ON_A_CARD), and the report is written before
# the checks, which take many minutes more.
gpu: BUDGET := 8m
gpu: setup ## on a borrowed GPU: a run of 8 minutes with its report, then the checks of every pair
	@$(MAKE) measure NAMES="--device cuda" BUDGET=$(BUDGET); measured=$$?; \
	$(MAKE) test-gpu && exit $$measured

lint: setup ## ruff, mypy, which room may import which, no file over 400 lines, and no more lines than there were
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@find harness benchmarks -name '*.py' -exec awk 'END { if (FNR > 400) print FILENAME ": " FNR " lines, over 400" }' {} \; | \
		{ ! grep .; }
	@$(BIN)/python -m tests.size

evidence: setup ## render all that is committed under reports/ anew, by this suite
	@$(BIN)/python -m tests.evidence

report: setup ## render the newest run into reports/
	@$(BIN)/tipbench report --format md --format html --out reports

clean: ## remove .venv and caches; results and reports stay
	rm -rf $(VENV) *.egg-info build .import_linter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find benchmarks harness tests -name __pycache__ -type d -prune -exec rm -rf {} +
