# Everything that the project needs is set up on first use; what is built once is cached outside the repository.
PYTHONS := python3.11 python3.12 python3.13
PYTHON ?= $(firstword $(foreach name,$(PYTHONS),$(shell command -v $(name) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV := uv==0.13.9
# uv installs exactly what uv.lock has. INSTALLER=pip takes pip with its settings, such as the index of a company.
INSTALLER ?= uv
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Not compiled: the cloud SDKs have thousands of modules and few are ever imported. Python compiles those.
INSTALL_BY_uv = $(BIN)/uv sync --quiet --frozen --inexact --extra dev
INSTALL_BY_pip = $(BIN)/python $(PIP_INSTALL) --no-compile --requirement requirements.txt --editable '.[dev]'
INSTALL = $(INSTALL_BY_$(INSTALLER)) && touch $(STAMP)

# Images set it to stay small; here each of hundreds of processes would compile the same modules once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install up down test test-long test-thorough suite test-training test-karpenter test-keda test-prometheus lint lint-pyright docs lock fmt clean help

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { echo "error: $(or $(PYTHON),Python 3.11) not found: install Python 3.11, 3.12 or 3.13, or set PYTHON=..." >&2; exit 2; }
	@$(PLAN)
	@$(PYTHON) -m venv --clear $(VENV)

$(BIN)/uv: $(BIN)/python
	@$(BIN)/python $(PIP_INSTALL) '$(UV)' && touch $@

$(STAMP): pyproject.toml uv.lock requirements.txt $(BIN)/uv
	@echo "installing Python packages into $(VENV)"
	@$(SETUP)

# `up` and `test` need the sandbox's control plane, too. The first line says how it comes and how long that takes. Its
# download or build needs only the standard library, so it runs while packages are installed. Where that fails, it is
# stopped and the message of uv or pip is the last.
PLAN = :
up test test-long test-thorough: PLAN = $(PYTHON) -m sandbox.build --plan
SETUP = $(INSTALL)
up test test-long test-thorough: SETUP = $(BIN)/python -m sandbox.build & build=$$!; \
  { $(INSTALL); } || { kill $$build 2>/dev/null; wait $$build; exit 2; }; wait $$build

HINT = @command -v gpu-platform >/dev/null || echo "gpu-platform is in $(BIN): run . $(BIN)/activate to have it on PATH"

install: $(STAMP) ## set up .venv with the command gpu-platform
	$(HINT)

up: $(STAMP) ## deploy the stack `local` in the sandbox, validate its nodes, report
	$(HINT)
	$(BIN)/gpu-platform up local

down: $(STAMP) ## stop the sandbox of the stack `local`; nothing is left running
	$(BIN)/gpu-platform sandbox down --name local || test $$? -eq 2 # there is none

lint: $(STAMP) ## formatting, lint, types, import contracts, the stack file's schema, and the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check --progress-bar no
	PYTHONPATH=extensions/training $(BIN)/lint-imports
	$(BIN)/gpu-platform schema --check
	$(BIN)/python -m tools.docs --check
	$(BIN)/zensical build --clean --strict

# pyright and its Node.js take a minute of CPU time and 4 GB, so they are no part of .venv.
lint-pyright: $(STAMP) ## what pyrefly does not find: needless conditions, private names of other modules
	$(BIN)/uv tool run --quiet --from 'pyright[nodejs]==1.1.414' pyright

docs: $(STAMP) ## write the generated pages and build the site in site/
	$(BIN)/python -m tools.docs
	$(BIN)/zensical build --clean --strict

# For pip: `pulumi install`, the plugin, and users without uv.
EXPORT = $(BIN)/uv export --quiet --frozen --no-dev --extra aws --extra gcp --extra azure --no-hashes --no-annotate --no-header --no-emit-project
LIST = { echo '\# Versions of uv.lock for pip, by: make lock'; echo '--editable $(1)'; $(EXPORT); }

lock: $(BIN)/uv ## renew uv.lock after a change of pyproject.toml, and the lists of its versions for pip
	$(BIN)/uv lock
	@$(call LIST,.) > requirements.txt
	@$(call LIST,..) > plugin/requirements.txt

fmt: $(STAMP) ## format, and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP) ## lint, types and all tests but the long ones, side by side
	@$(MAKE) --no-print-directory --jobs 2 lint suite

# The workers begin at once with an import of all tests: in a new environment each would compile them all.
COMPILED := $(VENV)/.compiled
$(COMPILED): $(STAMP)
	@echo "compiling the tests and what they import (about 20 seconds)"
	@$(BIN)/pytest --collect-only --quiet --numprocesses 0 >/dev/null 2>&1; touch $@

# Upgrades, which are among the long tests, need every version of Kubernetes.
MARKS = not long and not thorough
VERSIONS =
suite: $(STAMP) $(COMPILED)
	$(BIN)/python -m sandbox.build $(VERSIONS)
	$(BIN)/pytest -m '$(MARKS)' --numprocesses 4 --dist loadgroup --no-loadscope-reorder

test-long: $(STAMP) ## the tests that play a part of a platform's life on a cluster: changes, upgrades, queues, teams that leave
	@$(MAKE) --no-print-directory suite MARKS='long and not thorough' VERSIONS=--all

# What tests draw or repeat is few in `test`, and the same in each run; here it is many, and others in each run.
test-thorough: $(STAMP) ## both, with many more random examples, killed runs and generated pods; an hour or more
	@GPU_PLATFORM_TESTS=thorough $(MAKE) --no-print-directory suite MARKS= VERSIONS=--all

# PyTorch and what it needs of CUDA are 5 GB: they have an environment of their own, outside the repository.
# With PIP_EXTRA_INDEX_URL of PyTorch's builds for CPUs they are a tenth of it.
TORCH := torch==2.15.0
# They read the configurations that gpu_platform_training.configure writes, and run what examples/jobs has for Ray.
LIBRARIES := accelerate==1.15.0 deepspeed==0.19.8 ray==2.60.0
TORCH_VENV := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-platform/$(notdir $(PYTHON))-$(subst ==,-,$(TORCH))
empty :=
TORCH_STAMP := $(TORCH_VENV)/.installed-$(subst $(empty) $(empty),-,$(subst ==,-,$(LIBRARIES)))
TORCH_PINS = $(TORCH_VENV)/pins.txt
TORCH_PIP = $(TORCH_VENV)/bin/python $(PIP_INSTALL) --no-compile --constraint $(TORCH_PINS)

$(TORCH_STAMP): $(BIN)/uv
	@echo "installing PyTorch into $(TORCH_VENV) (one to two minutes)"
	@test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv --clear $(TORCH_VENV)
	@$(EXPORT) --extra dev > $(TORCH_PINS)
	@$(TORCH_PIP) '$(TORCH)' numpy pytest pytest-timeout setuptools
	@# The build of DeepSpeed asks PyTorch for what it compiles: nothing, its kernels are for GPUs.
	@DS_BUILD_OPS=0 $(TORCH_PIP) --no-build-isolation $(LIBRARIES) && touch $@

test-training: $(TORCH_STAMP) ## what runs in containers of jobs: on CPUs, with PyTorch
	PYTHONPATH=extensions/training $(TORCH_VENV)/bin/python -m pytest --config-file /dev/null --rootdir . --confcutdir tests/extensions/training \
	  -p no:cacheprovider -q --durations 5 tests/extensions/training/torch_needed

# Its build takes minutes, and `up` and `test` do not need it.
test-karpenter: $(STAMP) ## build Karpenter, and test that it creates and removes nodes of the sandbox
	$(BIN)/python -m sandbox.build --karpenter
	$(BIN)/pytest -n0 -q -m 'not thorough' tests/e2e/test_karpenter_nodes.py

# KEDA links the clients of every cloud: half an hour of CPU time and more.
test-keda: $(STAMP) ## build KEDA, and test that it and the HPA scale a service by a metric of Prometheus
	$(BIN)/python -m sandbox.build --keda --prometheus
	$(BIN)/pytest -n0 -q -m 'not thorough' tests/e2e/test_keda_scaling.py

test-prometheus: $(STAMP) ## build Prometheus and promtool, and run the tests of rules and of a real Prometheus with them
	$(BIN)/python -m sandbox.build --prometheus
	$(BIN)/pytest -n0 -q -m 'not thorough' tests/planning/monitoring tests/planning/test_pool_schedules.py \
	  tests/planning/test_agent_metrics.py tests/e2e/test_real_prometheus.py

clean: ## remove the virtual environment
	rm -rf $(VENV)
