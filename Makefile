# Every target makes .venv itself, and again only when the requirements changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
GPU_VENV := .venv-gpu
GPU_BIN := $(GPU_VENV)/bin
LEGACY_VENV := .venv-legacy
LEGACY_BIN := $(LEGACY_VENV)/bin
PORT ?= 8000
PIP := -m pip install --quiet --disable-pip-version-check
# Whatever ends it, what it started ends as well.
SUPERVISED = $(BIN)/python book/supervise.py

# A kernel named python3 is this environment's, not one in the reader's home.
export JUPYTER_PREFER_ENV_PATH = 1
# The real data, where it lies beside the checkout; otherwise the hub, or what comes with Python.
ifneq ($(wildcard ../shared/data),)
export RANKBOOK_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help book profile-book check test-change tidy test soak serve lab legacy clean test-gpu gpu-records contact-sheet

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

book: $(READY) ## execute the chapters and build both languages
	@$(SUPERVISED) $(BIN)/python book/build.py

profile-book: $(READY) ## build all from nothing, and record what each chapter takes (some 15 minutes)
	@$(SUPERVISED) $(BIN)/python book/profile_book.py

# What a change needs before it is shared: no system package, no execution of chapters. Each part says
# what to do about what it finds. `make tidy` mends most of what the linter says.
CHECKS := lint types languages links units
check: $(READY) ## lint, types, unit tests, the two languages, links between pages
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(CHECKS:%=check-%)

SINCE ?= HEAD
test-change: $(READY) ## test what a change since the last commit reaches (SINCE=...; 3 minutes)
	@$(SUPERVISED) $(BIN)/python tests/changed.py $(SINCE)

tidy: $(READY) ## let the linter mend and format what it can
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

.PHONY: $(CHECKS:%=check-%)
check-lint:
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check . || { \
	echo "make check: the linter found something; make tidy mends most of it"; exit 1; }

check-types:
	@$(BIN)/pyrefly check --output-format min-text || { \
	echo "make check: types do not fit; say what is meant where a line above points"; exit 1; }

check-languages:
	@$(BIN)/python book/twins.py || { echo "make check: bring both languages to the same state, then \
	python book/twins.py --record CHAPTER CELL (code: --sync CHAPTER)"; exit 1; }

check-links:
	@$(BIN)/python book/links.py || { echo "make check: mend the links above in both languages"; exit 1; }

check-units:
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet -m 'not slow' tests/unit tests/languages $(TWO_AT_A_TIME)

# Five passes more, each to its end whatever the one before gave. Chapters first, each language under
# conditions of its own: the book that the tests look at is built from what the English ones gave
# (chapters/conftest.py). No clock decides about a page: it is ended when it does not get on. Then what
# waits more than it works: pages, and jobs in a queue; then programs of ranks. What is killed and looked for
# afterwards has the machine to itself. What fails is run once more, alone; the last words are of that.
test: $(READY) ## run the tests (long ones unless on record), and every chapter in both languages
	@$(SUPERVISED) $(MAKE) --no-print-directory --jobs=1 --keep-going $(if $(CHECKED),,check) \
	test-chapters test-slow test-pages test-programs test-ranks; status=$$?; \
	$(BIN)/python tests/again.py || status=1; exit $$status

.PHONY: test-chapters test-slow test-pages test-programs test-long test-ranks
TWO_AT_A_TIME := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
# of what also waits: for a clock, a browser, a queue, a chapter's ranks
THREE_AT_A_TIME := $(subst =2,=3,$(TWO_AT_A_TIME))
APART := tests/site tests/slurm/jobs tests/hub tests/autopsy tests/wheel tests/frontends
PROGRAMS := tests/distributed tests/wrappings tests/originals
PASS = $(SUPERVISED) $(BIN)/python tests/again.py
TIMED := --durations=20 --durations-min=1

test-chapters: $(READY)
	@$(PASS) chapters chapters --nbmake --timeout=0 $(TIMED) $(THREE_AT_A_TIME)

test-pages: $(READY)
	@OMP_NUM_THREADS=1 $(PASS) pages $(APART) $(TIMED) $(THREE_AT_A_TIME)

# the unit tests that make check leaves out, the longest first; the files that have none are not even read
LONGEST := tests/unit/test_gpu_benchmark.py
test-slow: $(READY)
	@OMP_NUM_THREADS=1 $(PASS) slow -m slow $(TIMED) $(TWO_AT_A_TIME) \
	$(LONGEST) $(filter-out $(LONGEST),$(shell grep -rl --include='*.py' mark.slow tests/unit))

test-programs: $(READY)
	@$(PASS) programs $(PROGRAMS) $(TIMED) $(TWO_AT_A_TIME)

test-long: $(READY) ## run the long tests whose record does not stand, and record them (half an hour for all)
	@RANKBOOK_LONG=1 $(SUPERVISED) $(BIN)/python -m pytest -m long tests $(TIMED) $(TWO_AT_A_TIME)
	@$(BIN)/python -m benchmarks.readme

test-ranks: $(READY)
	@$(PASS) ranks tests $(TIMED) $(TWO_AT_A_TIME) \
	$(patsubst %,--ignore=%,$(APART) $(PROGRAMS) tests/unit tests/languages)

soak: $(READY) ## let things go wrong in 500 runs and record it (about an hour; goes on where it stopped)
	@$(BIN)/python -m benchmarks.soak
	@$(BIN)/python -m benchmarks.readme

contact-sheet: book ## lay out every picture of the book: both languages, desktop, dark, phone (some minutes)
	@$(BIN)/python book/contact_sheet.py

serve: book ## show the built book on http://127.0.0.1:8000 (PORT=...)
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

lab: $(READY) ## open the chapters in JupyterLab on http://127.0.0.1:8888
	@$(BIN)/jupyter lab --ip=127.0.0.1 --port=8888 --ServerApp.root_dir=chapters \
	$(if $(filter 0,$(shell id -u)),--allow-root)

test-gpu: $(GPU_VENV)/.ready ## on a GPU box: run chapters and magics with the box's own torch
	@rm -rf $(GPU_VENV)/en && cp -r chapters/en $(GPU_VENV)/en  # as deep as chapters/en
	@PYTHONPATH=src $(GPU_BIN)/python -m pytest tests/live $(GPU_VENV)/en \
	--nbmake --nbmake-timeout=3600 --overwrite
	@$(GPU_BIN)/python book/record_gpu.py $(GPU_VENV)/en

gpu-records: ## on a GPU box: measure what only a GPU can tell, going on where it stopped
	@$(PYTHON) -c 'import torch' 2>/dev/null || { echo "make gpu-records: $(PYTHON) has no torch; \
	name the Python that has the box's own: make gpu-records PYTHON=/path/to/python3"; exit 1; }
	@PYTHONPATH=src $(PYTHON) -m benchmarks.gpu; status=$$?; [ $$status != 75 ] || { \
	echo "make gpu-records: there is more to do; run it again"; exit 1; }; exit $$status

legacy: $(READY) $(LEGACY_VENV)/.ready ## run the real torchtext and Pipe in a kernel of their own (5.5 GB)
	@JUPYTER_PATH=$(abspath $(VENV))/share/jupyter $(LEGACY_BIN)/python -m ipykernel install \
	--prefix $(VENV) --name rankbook-legacy --display-name "Python 3 (torch 2.3, torchtext)" \
	--env PYTHONPATH $(abspath src) >/dev/null
	@$(BIN)/python book/legacy/record.py
	@$(BIN)/python -m benchmarks.readme

clean: ## remove everything that was built, .venv too
	rm -rf _build $(VENV) $(GPU_VENV) $(LEGACY_VENV)

$(READY): requirements.txt constraints.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not on the PATH; \
	install Python 3.11 to 3.13, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	echo "make: $$($(PYTHON) --version) is not supported; this book needs Python 3.11 to 3.13: \
	make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: $(PYTHON) has no venv module; \
	install it (Debian and Ubuntu: the package python3-venv)"; exit 1; }
	@echo "Installing the tested versions into $(VENV) (once; some minutes) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(PIP) -r requirements.txt
	@$(BIN)/python $(PIP) --no-deps --editable .
	@touch $@

# The box's torch stays: its packages are seen through a .pth file, which works for a system Python,
# conda and a virtual environment alike.
$(GPU_VENV)/.ready: book/requirements-gpu.txt constraints.txt
	@$(PYTHON) -c 'import torch' 2>/dev/null || { echo "make test-gpu: $(PYTHON) has no torch; \
	name the Python that has the box's own: make test-gpu PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || { \
	echo "make test-gpu: torch of $(PYTHON) sees no GPU on this machine; use make test"; exit 1; }
	@$(PYTHON) -m venv --clear $(GPU_VENV)
	@$(PYTHON) -c 'import sysconfig; print(*{sysconfig.get_path(p) for p in ("purelib", "platlib")}, \
	sep="\n")' > "$$($(GPU_BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/box.pth"
	@$(GPU_BIN)/python $(PIP) -r book/requirements-gpu.txt -c constraints.txt
	@$(GPU_BIN)/python -m ipykernel install --sys-prefix --name python3 >/dev/null
	@touch $@

# The kernel itself goes into .venv: JupyterLab finds it there, and the reader's home stays as it is.
$(LEGACY_VENV)/.ready: requirements-legacy.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' || { \
	echo "make legacy: torch 2.3 and the book have only Python 3.11 and 3.12 in common, and this is \
	$$($(PYTHON) --version): make legacy PYTHON=python3.11"; exit 1; }
	@echo "Installing torch 2.3 and torchtext into $(LEGACY_VENV) (once; 5.5 GB, some minutes) ..."
	@start=$$(date +%s) && $(PYTHON) -m venv --clear $(LEGACY_VENV) && \
	$(LEGACY_BIN)/python $(PIP) -r requirements-legacy.txt && \
	echo $$(($$(date +%s) - start)) > $@  # what it took, for the record
