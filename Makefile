# Every target makes .venv and installs what it needs; only Python 3.11+ and make must be there.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q

.PHONY: help demo test test-all bench bench-full bench-auto fuzz gallery docs lint clean

help:
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/.demo  ## run the paper's experiments, write demo/page.html
	$(BIN)/mvrc reproduce --output demo

test: .venv/.test .venv/.browser lint  ## format, types and all but the long tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-all: .venv/.test .venv/.torch .venv/.browser lint  ## also the long and large tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"
	$(BIN)/python -m pytest -m slow

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench  ## speed, compile time, memory, in 5 minutes; fails if one has become slower
	$(BIN)/python -m benchmarks

bench-full: .venv/.bench  ## the same over all sizes, in half an hour
	$(BIN)/python -m benchmarks --full

bench-auto: .venv/.bench  ## Auto against tuned methods and other solvers, in an hour
	$(BIN)/python -m benchmarks.auto
	$(BIN)/python -m benchmarks.solvers
	$(BIN)/python -m benchmarks.held_out
	$(BIN)/python -m benchmarks.comparison
	$(BIN)/python -m benchmarks.nist
	$(BIN)/python -m benchmarks.networks

fuzz: .venv/.test  ## a thousand random problems, with fresh seeds
	$(BIN)/python -m tests.fuzz

gallery: .venv/.gallery  ## run the examples of gallery/ as notebooks, into docs/gallery
	$(BIN)/python -m gallery.build

docs: .venv/.docs  ## build site/ from docs/
	$(BIN)/python -c "from mvrc.solvers.table import write; write('docs/methods.md')"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html"

clean:  ## remove what the other targets made
	rm -rf .venv site demo .pytest_cache .mypy_cache .ruff_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it." >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml
	$(PIP) -e '.[cli,data,progress,report,sklearn]'
	@touch $@

.venv/.test: .venv/bin/python pyproject.toml
	$(PIP) -e '.[test,docs]'
	@touch $@

# Debian's browser for the test of the page; where it cannot be had, that test is skipped.
.venv/.browser: .venv/bin/python
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
	>/dev/null 2>&1 || echo "chromium cannot be installed here; the page is not tested."
	@touch $@

.venv/.bench: .venv/bin/python pyproject.toml
	$(PIP) -e '.[bench]'
	@touch $@

.venv/.torch: .venv/.test
	$(PIP) -e '.[torch]'
	-$(PIP) --no-deps libauc tqdm  # compared with; what else it needs is not needed for that
	@touch $@

.venv/.gallery: .venv/bin/python pyproject.toml
	$(PIP) -e '.[gallery]'
	@touch $@

.venv/.docs: .venv/bin/python pyproject.toml
	$(PIP) -e '.[docs,plot]'
	@touch $@
