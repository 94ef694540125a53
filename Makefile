# srlviz. Every target sets up .venv itself and needs only git, make and Python 3.11 or newer.
#
#   make demo PYTHON=/opt/python3.11/bin/python3    another Python
#   make demo PIP_ARGS='--extra-index-url URL'      more arguments for pip: with the URL of the CPU wheels of pytorch.org,
#                                                   torch installs without gigabytes of CUDA on Linux
#   make demo LOCK=                                 the loose ranges of settings.ini instead of the lock
#   make test JOBS=8                                more processes for the tests (default: 3, for two cores)
#   make tables TABLES='matrix mmer' DRY=1          what some of the shipped tables lack, and what it would cost
PYTHON ?= python3
PIP_ARGS ?=
LOCK ?= requirements-lock.txt
JOBS ?= 3
FUZZ ?=
NOTEBOOKS ?=
TABLES ?=
DRY ?=
# arguments of `make demo`
DEMO ?= -p game pong -p encoder_frames 8000 -p probe_frames 12000 -p epochs 6 -p probe_epochs 60
DEMO_OUT ?= runs/demo

BIN := .venv/bin
READY := @command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or use make PYTHON=/path/to/python3"; exit 1; }; $(PYTHON) .ci/setup.py
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
LABROOT := $(shell test "$$(id -u)" = 0 && echo --allow-root)
export PIP_ARGS LOCK
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo lab test check bench tables slow fuzz recipes rllib pictures docs readme lock setup

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## run a study of Pong, from pixels to a heat map, and open it in JupyterLab (about 4 minutes)
	@$(BIN)/srlviz run atari_probe $(DEMO) --out $(DEMO_OUT)
	@if [ -t 1 ]; then $(BIN)/jupyter lab $(LABROOT) $(DEMO_OUT)/atari_probe.ipynb; else echo "To open it: $(BIN)/jupyter lab $(DEMO_OUT)/atari_probe.ipynb"; fi

lab: setup ## open JupyterLab on the tutorials, beside the course
	@$(BIN)/jupyter lab $(LABROOT) --notebook-dir=. nbs/tutorials

check: setup ## format, export, lint, and run all tests but slow ones and those of the browser and the wheel
	@$(BIN)/python .ci/test.py --jobs $(JOBS) --notebooks '$(NOTEBOOKS)'

test: setup ## everything that CI runs: check, browser tests (Chromium; without root: sudo apt-get install chromium), the wheel; some: NOTEBOOKS='02_contrast'
	@$(BIN)/python .ci/test.py --browser --jobs $(JOBS) --notebooks '$(NOTEBOOKS)'

slow: setup ## what `make test` leaves out: cells marked slow, real training, every case of every attack, every benchmark with small sizes
	@$(BIN)/python .ci/test.py --slow --jobs $(JOBS)

fuzz: setup ## fuzz every reader with 300 mutations of each of its files; options: FUZZ='--reader flights --cases 1000'
	@$(BIN)/python tests/fuzz --jobs $(JOBS) $(FUZZ)

bench: setup ## run the benchmarks: speed of recording, probing, training, import
	@for b in $(filter-out benchmarks/measure_%,$(wildcard benchmarks/*.py)); do echo "== $$b"; $(BIN)/python $$b || exit 1; done

tables: setup ## measure what the shipped tables lack, in order of priority (days of two cores in all); DRY=1 only lists it
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/measure_tables.py --tables $(TABLES) $(if $(DRY),--dry)

recipes: setup ## run every Python block of the README and the guides, with stable-baselines3, RLlib, LaTeX and nbgrader, in a separate environment
	@$(BIN)/python .ci/recipes.py

rllib: setup ## test every memory with RLlib, in the same environment, with Ray (256 MB) and another Gymnasium
	@$(BIN)/python .ci/recipes.py tests/test_rllib.py 'tests/test_notebooks.py::test_notebook_with_its_slow_cells[05_agents/08_rllib.ipynb]'

pictures: setup ## execute the tutorials, studies and lessons and store their outputs (needs Chromium); some: NOTEBOOKS='02_atari'
	$(READY) --browser
	@$(BIN)/python .ci/pictures.py $(NOTEBOOKS)
	@$(BIN)/python .ci/sync.py --write

docs: ## build the documentation site in docs/_build/html, in an environment of its own (2 minutes); also external links: LINKCHECK=1
	@$(PYTHON) .ci/docs.py $(if $(LINKCHECK),--linkcheck)
	@if [ -x $(BIN)/pytest ]; then $(PYTEST) -m site tests/test_site.py; fi

readme: setup ## export, clean, and write README.md from nbs/index.ipynb
	@$(BIN)/python .ci/sync.py --write

lock: setup ## update the lock for every Python and system, keeping versions; UPGRADE=--upgrade for the newest
	@$(BIN)/python .ci/lock.py $(UPGRADE)

setup:
	$(READY)
