# Every target does its own set-up in .venv and costs nothing when nothing changed.
# `make demo PYTHON=python3.12` chooses the interpreter (3.11 or later) for a new .venv.

VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check install --quiet
UV_PIN := uv==0.13.9
SOURCES := src tests tools bench docs/examples
ARGS   ?=

DEMO_READY := $(VENV)/.ready-demo
DEV_READY  := $(VENV)/.ready-dev
# The benchmark has an environment of its own: it needs the peers that the product is compared with.
BENCH_VENV  := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready-bench
# So has the small language model that runs on this machine.
LOCAL_VENV  := .venv-local
LOCAL_READY := $(LOCAL_VENV)/.ready-demo
LOCAL_TESTS_READY := $(LOCAL_VENV)/.ready-tests
PYTEST     := $(PY) -m pytest

.PHONY: help demo demo-local test test-kafka test-local-model check eight test-scale bench format requirements clean

help:
	@echo "make demo          label a few thousand records end to end on this machine"
	@echo "make demo-local    the same with a small language model on this machine (130 MB to download)"
	@echo "make test          all tests but the long legs"
	@echo "make check         format, lint, types, import law, documents"
	@echo "make eight         the eight cases the product exists for"
	@echo "make test-scale    the long legs"
	@echo "make test-local-model  the tests of that small language model"
	@echo "make test-kafka    the tests of tests/kafka against Apache Kafka (Java 17 and Maven; 43 MB to download)"
	@echo "make bench         speed, footprint and peers on this machine (ARGS=--quick: a few minutes)"
	@echo "make format        rewrite the code in the house format"
	@echo "make requirements  renew the pinned exports in requirements/"
	@echo "make clean         remove the environments and caches; data in .assay stays"

demo: $(DEMO_READY)
	$(VENV)/bin/assay demo $(ARGS)

demo-local: $(LOCAL_READY)
	$(LOCAL_VENV)/bin/assay demo --model local $(ARGS)

test: $(DEV_READY)
	$(PYTEST) -n 2 --dist loadfile -m "not scale and not local_model" $(ARGS)

eight: $(DEV_READY)
	$(PYTEST) -m eight_cases $(ARGS)

test-scale: $(DEV_READY)
	$(PYTEST) -m scale --timeout 3600 $(ARGS)

test-local-model: $(LOCAL_TESTS_READY)
	$(LOCAL_VENV)/bin/python -m pytest -m local_model --timeout 600 tests/local_model $(ARGS)

test-kafka: $(DEV_READY)
	sh tools/apache-kafka/prepare.sh
	ASSAY_TEST_BROKER=apache ASSAY_NO_SKIPS=1 $(PYTEST) -m "not scale" tests/kafka $(ARGS)

bench: $(BENCH_READY)
	$(BENCH_VENV)/bin/python -m bench $(ARGS)

check: $(DEV_READY)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m mypy $(SOURCES)
	$(VENV)/bin/lint-imports --no-cache
	$(PY) tools/check_all.py

format: $(DEV_READY)
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

# Versions move only here. dev comes first and constrains demo: one version of a package in both.
requirements: $(DEV_READY)
	$(PIP) "$(UV_PIN)"
	sh tools/export_requirements.sh "$(VENV)/bin/uv"

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(LOCAL_VENV) .kafka dist build .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ready:
	@sh tools/make_venv.sh $(VENV)
	@touch $@

$(DEMO_READY): $(VENV)/.ready requirements/demo.txt pyproject.toml
	@echo "Installing what the product needs into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/demo.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# dev.txt holds all of demo.txt, so a ready dev environment is a ready demo environment.
$(DEV_READY): $(VENV)/.ready requirements/dev.txt pyproject.toml
	@echo "Installing what the product and its tests need into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(DEMO_READY) $@

$(BENCH_READY): requirements/bench.txt pyproject.toml
	@sh tools/make_venv.sh $(BENCH_VENV)
	@echo '*' > $(BENCH_VENV)/.gitignore
	@echo "Installing what the benchmark needs into $(BENCH_VENV) ..."
	@$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/bench.txt
	@$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(LOCAL_READY): requirements/local.txt requirements/local-data.txt pyproject.toml
	@sh tools/install_local_model.sh $(LOCAL_VENV)
	@touch $@

$(LOCAL_TESTS_READY): requirements/local.txt requirements/local-data.txt requirements/dev.txt pyproject.toml
	@sh tools/install_local_model.sh $(LOCAL_VENV) tests
	@touch $(LOCAL_READY) $@
