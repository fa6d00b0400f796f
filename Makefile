# Everything that the project needs is set up on first use; what is built once is cached outside the repository.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install up down test lint docs fmt clean help

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

lint: $(STAMP) ## formatting, lint, types, the stack file's schema, and the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/gpu-platform schema --check
	$(BIN)/python -m tools.docs --check
	$(BIN)/zensical build --clean --strict

docs: $(STAMP) ## write the generated pages and build the site in site/
	$(BIN)/python -m tools.docs
	$(BIN)/zensical build --clean --strict

fmt: $(STAMP) ## format and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint ## lint, types and the whole suite
	$(BIN)/pytest --numprocesses 3 --dist loadgroup

clean: ## remove the virtual environment
	rm -rf $(VENV)
