# Everything runs in .venv, which is built from nothing and again whenever pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.dev-installed
# The build of torch that training and encoding are tested with. It goes in before what depends on it, since a range
# of versions would take the newest build and, on Linux, several gigabytes for graphics cards with it.
TORCH := torch==2.13.0

# More arguments for pytest, e.g. make test PYTEST_ARGS="-k sinkhorn"
PYTEST_ARGS ?=

# One worker per core, at most four; each worker computes on one thread.
WORKERS = $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); if [ "$$n" -gt 4 ]; then n=4; fi; echo "$$n")
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 BLIS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1
PYTEST = $(ONE_THREAD) $(RUN) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup browser test demo check docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(DEV_STAMP) ## build .venv with everything installed

# What the package needs to run at full speed, and no more.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "unhub needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[fast,serve]'
	@touch $@

$(DEV_STAMP): $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Pages are looked at in a browser where there is one; where there is none and none can be had, those tests skip.
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20
browser: ## install Chromium for the tests of pages, where that is possible
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && $(APT) update >/dev/null 2>&1 && \
	    $(APT) install -y --no-install-recommends chromium >/dev/null 2>&1; } || \
	  echo "no Chromium, and it cannot be installed here: the tests of pages in a browser will skip"

test: $(DEV_STAMP) browser ## run the tests, then again without numba
	$(PYTEST)
	UNHUB_NO_NUMBA=1 $(PYTEST) -m "not once"

demo: $(STAMP) ## search the functions on this machine by what they do, before and after
	$(RUN) -m unhub demo
	@echo "To search on a page: $(VENV)/bin/unhub serve, then open http://127.0.0.1:8000"

check: $(DEV_STAMP) ## lint, formatting, types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# The variable silences the theme's notice about versions of mkdocs to come; warnings of the build itself are errors.
docs: $(DEV_STAMP) ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

bench: $(DEV_STAMP) ## time the fits, and their growth with the sizes
	$(RUN) benchmarks/fit.py
	$(RUN) benchmarks/growth.py --picture docs/compute/growth.png

clean: ## remove .venv, the site and every cache
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
