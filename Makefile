# The README's two commands are `make demo` and `make test`. Each makes its own environment in .venv, with the exact
# versions of requirements.lock, and reinstalls nothing when run again.

PYTHON ?= python3
EXTRAS ?=
# Extras to test beside the core, for example EXTRAS=ray,app,torch; tests of a missing extra are skipped.

BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles what it imports; compiling all that is installed takes half a minute more.
export PIP_NO_COMPILE := 1
# The tests start many processes: what one of them compiles serves the next.
export PYTHONDONTWRITEBYTECODE :=

comma := ,
WANTED := dev$(if $(EXTRAS),$(comma)$(EXTRAS))
TEST_STAMP := .venv/installed-$(subst $(comma),-,$(WANTED))

.PHONY: demo test docs pytest golden fuzz lint types imports format lock lowest wheel benchmark clean

demo: .venv/installed
	@$(BIN)/python examples/demo.py demo

# Types take a minute on one core; the tests begin beside them.
test: $(TEST_STAMP)
	@$(MAKE) --no-print-directory --jobs 2 lint types imports pytest

pytest: $(TEST_STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The site, in site/index.html: notebooks are run, and every broken link or reference is an error. No network is needed.
docs: .venv/installed-docs
	$(BIN)/python tools/build_site.py --run-notebooks

# Everything that tests/golden has recorded, computed again and compared field by field: minutes on one core.
golden: $(TEST_STAMP)
	$(BIN)/python tests/golden/record.py --check

# Hostile inputs by the thousand: make fuzz SEED=7 COUNT=2000
SEED ?= 0
COUNT ?= 11000
fuzz: $(TEST_STAMP)
	$(BIN)/python tests/fuzz/long_form.py --seed $(SEED) --count $(COUNT)

lint: $(TEST_STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(TEST_STAMP)
	$(BIN)/mypy

imports: $(TEST_STAMP)
	$(BIN)/lint-imports --no-logo

format: $(TEST_STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

benchmark: $(TEST_STAMP)
	$(BIN)/python benchmarks/measure.py
	$(BIN)/python benchmarks/cp.py
	$(BIN)/python benchmarks/construct.py
	$(BIN)/python -m pip install --quiet --editable '.[dev,torch]'
	$(BIN)/python benchmarks/lanes.py
	$(BIN)/python benchmarks/lanes.py --split
	$(BIN)/python benchmarks/fused.py

# Resolve the newest versions that pyproject.toml allows, for all extras but cuda and track. PyTorch stays at the version
# of which there are builds without CUDA, and its pin names no build, so it serves every platform.
lock: $(TEST_STAMP)
	PIP_CONSTRAINT= $(BIN)/python -m pip install --quiet pip-tools
	grep '^torch==' requirements.lock > .venv/held.txt
	PIP_CONSTRAINT= $(BIN)/pip-compile --quiet --upgrade --strip-extras --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --constraint .venv/held.txt --extra dev,app,audit,docs,ray,torch --output-file .venv/resolved.txt \
	  pyproject.toml
	{ echo '# Exact versions for `make demo`, `make test` and `make docs`, used as pip constraints. Made by `make lock`.'; \
	  grep '==' .venv/resolved.txt | sed 's/+.*//'; } > requirements.lock

# The demo, the examples in docstrings and the tests of the command line with the lowest version of every dependency
# that pyproject.toml allows. Old versions may warn.
lowest: export PIP_CONSTRAINT :=
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/uv pip compile --quiet --resolution lowest-direct --output-file .venv-lowest/lowest.txt pyproject.toml
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --requirement .venv-lowest/lowest.txt --editable . \
	  beartype hypothesis pandas polars pytest
	.venv-lowest/bin/python examples/demo.py .venv-lowest/demo
	.venv-lowest/bin/python -m pytest --quiet --override-ini filterwarnings= src tests/cli

# The source distribution, and the wheel built from it in a clean environment of each Python:
# make wheel PYTHONS="python3.12 python3.13"
PYTHONS ?= python3.11 python3.12 python3.13
wheel: export PIP_CONSTRAINT :=
wheel: $(TEST_STAMP)
	rm -rf dist
	$(BIN)/python -m hatchling build --target sdist --directory dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
	for python in $(PYTHONS); do \
	  $$python -m venv --clear .venv-wheel && .venv-wheel/bin/python -m pip install --quiet dist/*.whl && \
	  .venv-wheel/bin/python tools/smoke.py || exit 1; \
	done

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "factrank needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml requirements.lock
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/installed-docs: .venv/bin/python pyproject.toml requirements.lock
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs,torch]'
	@touch $@ .venv/installed

$(TEST_STAMP): .venv/bin/python pyproject.toml requirements.lock
	$(BIN)/python -m pip install --quiet --editable '.[$(WANTED)]'
	@touch $@ .venv/installed

clean:
	rm -rf .venv .venv-lowest .venv-wheel demo dist site-pages site .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
