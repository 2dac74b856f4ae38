# The only commands a newcomer needs. Each installs what it needs by itself.
PYTHON ?= python3
PY := .venv/bin/python
STAMP := .venv/.installed
PYTEST := $(PY) -m pytest
BENCHES := $(patsubst tests/bench/%.py,%,$(wildcard tests/bench/[a-z]*.py))

.PHONY: help setup demo test unit integration e2e lint format bench kube schema

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## system packages, .venv, Kafka's jars

$(STAMP): pyproject.toml constraints.txt deploy/setup/system.sh ctl/kafka/pom.xml
	deploy/setup/system.sh
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(PY) -m ctl servers
	touch $@

demo: setup ## the whole pipeline on this machine, 12 simulated GPU nodes; Ctrl-C ends it
	.venv/bin/windvane demo

test: unit integration e2e ## all tests; real servers are started by the tests

unit: setup ## pure cores and shells without a network
	$(PYTEST) tests/unit -n auto -q

integration: setup kube ## each program against the real servers it talks to
	$(PYTEST) tests/integration

e2e: setup kube ## the whole pipeline, real brokers, real Kubernetes control plane
	$(PYTEST) tests/e2e

lint: setup ## ruff, mypy (strict on wire and the cores), the house rules
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: setup ## rewrite the code in the one format
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# Without Go the tests that need a control plane say so and are skipped (in CI they fail).
kube: ## build a Kubernetes control plane for the tests, once, into the user's cache folder
	tests/support/kube/build.sh || { code=$$?; test $$code -eq 3 && test -z "$$CI"; }

bench: setup ## `make bench NAME=pipeline`, or all; the last line of each is one JSON object
	@for name in $(or $(NAME),$(BENCHES)); do PYTHONPATH=tests $(PY) tests/bench/$$name.py || exit 1; done

schema: setup ## write the contract's JSON Schema files
	.venv/bin/windvane schema wire/schema
