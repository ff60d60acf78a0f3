# Two commands for a fresh machine: `make demo` runs the main job, `make test` passes the tests. Each sets itself up.

# The first interpreter that really starts and is new enough (a pyenv shim may be there and refuse).
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
PAYLOAD := .venv-payload
DEMO := .demo
WORKERS ?= auto

.PHONY: help demo faults test lint check format wheel-test screenshots clean

help:
	@echo 'make demo    install armada and train a tiny model on this machine, from launch to verified checkpoint'
	@echo 'make test    all tests; those that need real SSH hosts run where root, sshd and rsync are there'
	@echo 'make faults  links that break, processes that are killed, disks that fill, many times over'
	@echo 'make screenshots  the pictures of the dashboard in README.md and docs/'
	@echo 'make lint    ruff, mypy --strict, import-linter, vermin'
	@echo 'make check   lint and tests'

# The demo installs what a user would install, into a folder of its own; a second run finds everything there.
$(DEMO)/venv/.ready: pyproject.toml $(shell find armada remote_payload profiles examples -type f -not -name '*.pyc')
	@echo 'installing armada into $(DEMO)/venv'
	@test -n '$(PYTHON)' || { echo 'armada needs Python 3.11 or newer; set PYTHON=/path/to/python3'; exit 2; }
	@test -x $(DEMO)/venv/bin/python || $(PYTHON) -m venv $(DEMO)/venv
	@$(DEMO)/venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps . \
	  && $(DEMO)/venv/bin/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

demo: $(DEMO)/venv/.ready
	ARMADA_HOME=$(abspath $(DEMO))/home $(DEMO)/venv/bin/armada launch --host local quickstart --follow --no-daemon

$(VENV)/.ready: pyproject.toml
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# The payload's own tests need its environment: the same pinned lists that hosts get, by this machine's pip configuration.
$(PAYLOAD)/.ready: profiles/cpu.yaml $(wildcard profiles/requirements/*.txt) $(VENV)/.ready
	@test -x $(PAYLOAD)/bin/python || $(PYTHON) -m venv $(PAYLOAD)
	$(VENV)/bin/python -c 'from armada.config.profiles import load_profile; from armada.provision.environment_key import requirements_text; from armada.paths import HomePaths; from pathlib import Path; print(requirements_text(load_profile("cpu", HomePaths(Path("/nowhere"), Path("/nowhere")))))' > $(PAYLOAD)/requirements.txt
	$(PAYLOAD)/bin/python -m pip install --quiet --disable-pip-version-check -r $(PAYLOAD)/requirements.txt
	@touch $@

test: $(VENV)/.ready $(PAYLOAD)/.ready
	ARMADA_PAYLOAD_PYTHON=$(abspath $(PAYLOAD))/bin/python $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST)

# The long form of the fault tests; `make test` runs each a few times.
# Every fault many times over, and the table of them in docs/reliability.md.
faults: $(VENV)/.ready
	ARMADA_FAULT_KILLS=150 $(VENV)/bin/python -m pytest -p tests.fault_table --fault-table docs/reliability.md -m fault -n $(WORKERS) $(PYTEST)

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy armada
	MYPYPATH=remote_payload $(VENV)/bin/mypy -p armada_agent -p armada_train
	$(VENV)/bin/mypy tests
	PYTHONPATH=remote_payload $(VENV)/bin/lint-imports
	$(VENV)/bin/vermin --quiet --no-tips -t=3.6- --violations remote_payload/armada_agent

check: lint test

format: $(VENV)/.ready
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# After a change of what the dashboard looks like; tests/tui/pictures are the tests' own: ARMADA_UPDATE_PICTURES=1 pytest tests/tui/test_pictures.py
screenshots: $(VENV)/.ready
	$(VENV)/bin/python docs/screenshots.py

clean:
	rm -rf $(VENV) $(PAYLOAD) $(DEMO) dist build
