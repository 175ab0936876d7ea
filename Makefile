# Every target sets up what it needs, on a machine with Python 3.10+ and JDK 17+, into .venv and build/. A second run is quick.
PYTHON ?= python3
VENV ?= .venv
# The version of Spark for jar, demo and tests. Another one is fetched once, and comes before that of the environment.
OWN_SPARK := 4.2.1
SPARK ?= $(OWN_SPARK)
ifneq ($(SPARK),$(OWN_SPARK))
OTHER_SPARK := $(abspath $(or $(MOORING_CACHE),$(HOME)/.cache/mooring))/pyspark-$(SPARK)
export PYTHONPATH := $(OTHER_SPARK)$(if $(PYTHONPATH),:$(PYTHONPATH))
endif

BIN := $(VENV)/bin
PY := $(BIN)/python
ANY_PYTHON := $(if $(wildcard $(PY)),$(PY),$(PYTHON))
PIP := $(PY) -m pip install --disable-pip-version-check
PYTEST := $(PY) -m pytest
CLASSES := build/spark-$(SPARK).jsa
WITH_CLASSES := MOORING_CLASS_ARCHIVE=$(abspath $(CLASSES))
CHECK_TOOLS := scripts/check_machine.py scala-shim/jdk.py
QUICK_TESTS := $(wildcard tests/unit tests/property tests/contract)
EACH_LINE := tests/versions/test_each_line.py
LIGHT := not heavy and not chaos

# Spark's own helpers otherwise start the system's python3 on the executors.
export PYSPARK_PYTHON := $(abspath $(PY))
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Images for containers often set this; then each process compiles each module, and pytest rewrites each test, anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help dev unit demo test lint format jar lines publish-local bench conformance smoke chaos docs reference clean distclean machine

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

dev: $(VENV)/.ready-dev jar  ## the environment for work on Mooring, and the jar; nothing is run

unit: $(VENV)/.ready-unit  ## unit tests but the slow ones, without a JVM and without PySpark [ARGS="-k name": slow ones too]
	PYTHONPATH=$(abspath python) HYPOTHESIS_PROFILE=few $(PYTEST) tests/unit -m "not needs_spark$(if $(ARGS),, and not slow)" --numprocesses 2 $(ARGS)

demo: $(VENV)/.ready jar  ## three hosts on this machine, a real stream, a kill, a restart: what Mooring does, shown [ARGS="--json FILE --with zookeeper"]
	$(BIN)/mooring demo $(ARGS)

test: $(VENV)/.ready-dev jar $(CLASSES)  ## unit, property and contract tests, then the integration tests that are not heavy [ARGS="-x -v"]
	$(WITH_CLASSES) $(PYTEST) $(QUICK_TESTS) tests/integration $(EACH_LINE) -m "$(LIGHT)" --numprocesses 2 --dist loadgroup --durations=20 --durations-min=5 $(ARGS)

lint: $(VENV)/.ready-dev jar  ## ruff, mypy, the direction of imports; the jar's own warnings are errors
	@failed=; check() { echo "$$*"; "$$@" || failed="$$failed; $$*"; }; PATH="$(abspath $(BIN)):$$PATH"; \
	check ruff check .; \
	check ruff format --check .; \
	check mypy; \
	check lint-imports; \
	[ -z "$$failed" ] || { echo "lint: failed$$failed" >&2; exit 1; }

format: $(VENV)/.ready-dev  ## let ruff format the Python code and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

jar: $(VENV)/.ready $(OTHER_SPARK)  ## the jar for the line of SPARK, with the Scala compiler among PySpark's jars [SPARK=4.1.4]
	$(PY) scala-shim/build_jar.py

lines: $(VENV)/.ready  ## the jars of all lines of Spark, in build/; fetches 430 MB for each other line, once
	$(PY) scala-shim/build_jar.py --spark all

publish-local: $(VENV)/.ready  ## the same jars with POM, sources and checksums, in the Maven repository build/maven [HOME_URL=the project's page]
	$(PY) scala-shim/publish.py --spark all $(if $(HOME_URL),--home $(HOME_URL))

bench: $(VENV)/.ready-dev jar  ## side by side with stock Spark: make bench NAME=restart [ARGS="--quick --json FILE"]
	$(PY) -m benchmarks $(NAME) $(ARGS)

conformance: $(VENV)/.ready-dev jar $(CLASSES)  ## the heavy tests: stores whose servers fail, every kind of stateful job, killed and restarted, against its offline answer
	$(WITH_CLASSES) $(PYTEST) -m "heavy or versions" tests/contract tests/integration tests/versions $(ARGS)

smoke: $(VENV)/.ready-dev jar  ## one small cluster of SPARK: a restart, a loss with a standby, a drain, to Mooring and back [SPARK=4.3.0]
	$(PYTEST) tests/versions/test_smoke.py $(ARGS)

chaos: $(VENV)/.ready-dev jar $(CLASSES)  ## seeded faults at random moments [ARGS="..."]
	$(WITH_CLASSES) $(PYTEST) -m chaos tests/chaos $(ARGS)

docs: $(VENV)/.ready-docs  ## the pages as a site, build/site/index.html; a dead link, a missing page or a wrong anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

reference: $(VENV)/.ready  ## write the reference pages anew from the code
	$(PY) -m scripts.reference_pages

clean:  ## remove what was built (not .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis python/mooring.egg-info .gradle
	find python tests scala-shim scripts benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## remove .venv too
	rm -rf $(VENV)

machine:  ## say what this machine lacks, if anything
	@command -v $(ANY_PYTHON) >/dev/null || { echo "missing: there is no $(PYTHON) here; name a Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(ANY_PYTHON) scripts/check_machine.py

# The virtual environment. .ready: what a user of Mooring has. .ready-dev: the tests and the linters too.
$(PY): | machine
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: Makefile pyproject.toml setup.py $(CHECK_TOOLS) | $(PY)
	@echo "Setting up $(VENV). The first time this fetches PySpark, 430 MB, and may take some minutes."
	$(PIP) 'pip>=23'
	$(PIP) --editable '.[kafka,zookeeper]' 'pyspark==$(OWN_SPARK)'
	@touch $@

ifdef OTHER_SPARK
$(OTHER_SPARK): | $(VENV)/.ready
	$(PY) scala-shim/lines.py $(SPARK)
endif

# The classes of Spark as JVMs of tests map them: CPU time of their starts. It fits this Spark and this JDK only.
$(CLASSES): $(VENV)/.ready-dev $(OTHER_SPARK) | jar
	$(PY) -m tests.class_archive $@

# A JDK is not needed here.
$(VENV)/.ready-unit: pyproject.toml
	@command -v $(ANY_PYTHON) >/dev/null || { echo "missing: there is no $(PYTHON) here; name a Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	test -e $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) 'pip>=25.1'
	$(PIP) --group unit
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --editable '.[test,dev,kafka,zookeeper,sasl]' 'pyspark==$(OWN_SPARK)'
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready
	$(PIP) --editable '.[docs]'
	@touch $@
