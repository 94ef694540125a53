# srlviz. Every target does all its set-up by itself and needs only git, make and Python 3.11 or newer.
#
#   make demo PYTHON=/opt/python3.11/bin/python3    another Python
#   make demo PIP_ARGS='--extra-index-url URL'      more arguments for pip: with the URL that pytorch.org names for its CPU
#                                                   wheels, torch comes without gigabytes of CUDA on Linux
#   make demo LOCK=                                 the loose ranges of settings.ini instead of the lock
#   make test JOBS=8                                more processes for the tests
PYTHON ?= python3
PIP_ARGS ?=
LOCK ?= requirements-lock.txt
JOBS ?= 2
FUZZ ?=
NOTEBOOKS ?=
# what `make demo` runs
DEMO ?= -p game pong -p encoder_frames 8000 -p probe_frames 12000 -p epochs 6 -p probe_epochs 60
DEMO_OUT ?= runs/demo

BIN := .venv/bin
READY := @command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer, or say make PYTHON=/path/to/python3"; exit 1; }; $(PYTHON) .ci/setup.py
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
LABROOT := $(shell test "$$(id -u)" = 0 && echo --allow-root)
export PIP_ARGS LOCK
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo lab test check bench slow fuzz recipes rllib pictures readme lock setup

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Pong from pixels to a heat map: run the study, print its table, open JupyterLab (about 4 minutes)
	@$(BIN)/srlviz run atari_probe $(DEMO) --out $(DEMO_OUT)
	@if [ -t 1 ]; then $(BIN)/jupyter lab $(LABROOT) $(DEMO_OUT)/atari_probe.ipynb; else echo "To touch it: $(BIN)/jupyter lab $(DEMO_OUT)/atari_probe.ipynb"; fi

lab: setup ## JupyterLab on the tutorials
	@$(BIN)/jupyter lab $(LABROOT) --notebook-dir=. nbs/tutorials

check: setup ## clean, export, in sync, lint, notebook tests, pytest without browser
	@echo "srlviz: are modules, README and notebooks in sync?"
	@$(BIN)/python .ci/sync.py
	@echo "srlviz: ruff"
	@$(BIN)/ruff check --quiet --output-format concise srlviz nbs tests .ci benchmarks
	@echo "srlviz: notebooks and tests, $(JOBS) at a time"
	@$(PYTEST) -n $(JOBS) -m 'not browser and not wheel and not slow' tests

test: check ## everything that CI runs: check, then a browser (Chromium: not root? sudo apt-get install chromium) and the wheel
	$(READY) --browser
	@echo "srlviz: a real browser on a real JupyterLab; a wheel in an empty environment"
	@$(PYTEST) -m 'browser or wheel' tests

slow: setup ## real training: the cells marked slow and the tests of learning; every attack on a reader; every benchmark, small
	@SRLVIZ_SLOW=1 $(PYTEST) -n $(JOBS) -m 'not browser and not wheel' tests

fuzz: setup ## every reader on 300 mutations of each of its files; FUZZ='--reader flights --cases 1000' for other ones
	@$(BIN)/python tests/fuzz --jobs $(JOBS) $(FUZZ)

bench: setup ## the measured claims: speed of collector, probe, training, import
	@for b in $(filter-out benchmarks/measure_%,$(wildcard benchmarks/*.py)); do echo "== $$b"; $(BIN)/python $$b || exit 1; done

recipes: setup ## the README's recipes, also those for stable-baselines3 and RLlib, in an environment of their own
	@$(BIN)/python .ci/recipes.py

rllib: setup ## every memory under RLlib, in that environment, too: with Ray (256 MB) and another Gymnasium
	@$(BIN)/python .ci/recipes.py tests/test_rllib.py 'tests/test_notebooks.py::test_notebook[05_agents/08_rllib.ipynb]'

pictures: setup ## execute the tutorials and studies and keep what they show in them (needs Chromium); or NOTEBOOKS='02_atari'
	$(READY) --browser
	@$(BIN)/python .ci/pictures.py $(NOTEBOOKS)
	@$(BIN)/python .ci/sync.py --write

readme: setup ## export, clean, and write README.md from nbs/index.ipynb
	@$(BIN)/python .ci/sync.py --write

lock: setup ## the lock anew, for every Python and system, old versions kept; UPGRADE=--upgrade for the newest
	@$(BIN)/python .ci/lock.py $(UPGRADE)

setup:
	$(READY)
