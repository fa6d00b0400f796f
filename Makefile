# Everything that the project needs is set up on first use; what is built once is cached outside the repository.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install up down test suite lint fmt clean help

help: ## show this
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found: install Python 3.11 or newer, or set PYTHON=..." >&2; exit 2; }
	@echo "setting up $(VENV) (about a minute)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(STAMP) ## set up .venv with the command gpu-platform

up: $(STAMP) ## deploy the stack `local` in the sandbox, validate its nodes, report
	$(BIN)/gpu-platform up local

down: $(STAMP) ## stop the sandbox of the stack `local`; nothing is left running
	$(BIN)/gpu-platform sandbox down --name local

lint: $(STAMP) ## formatting, lint, types, import contracts, and the stack file's schema
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/gpu-platform schema --check

fmt: $(STAMP) ## format and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP) ## lint, types and the whole suite, side by side
	@$(MAKE) --no-print-directory --jobs 2 lint suite

suite: $(STAMP)
	$(BIN)/pytest --numprocesses 3 --dist loadgroup

clean: ## remove the virtual environment
	rm -rf $(VENV)
