# Two commands for a fresh machine: `make demo` runs the main job, `make test` passes the tests. Each sets itself up.
# Every path here is relative or quoted: the checkout may lie in a folder with a blank in its name. For the same reason programs of
# an environment are started by its python: the kernel takes no blank in a script's first line.

# The first interpreter that really starts and is new enough (a pyenv shim may be there and refuse).
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
PAYLOAD := .venv-payload
DOCS := .venv-docs
DEMO := .demo
WORKERS ?= auto
# Options for pytest, such as PYTEST='-k resume' or PYTEST=tests/fleet.
PYTEST ?=
MUTANTS ?=
DURATIONS := .durations.jsonl
RUN_TESTS = ARMADA_PAYLOAD_PYTHON="$(CURDIR)/$(PAYLOAD)/bin/python" $(VENV)/bin/python -m pytest \
  -p tests.plugins.durations --durations-file $(DURATIONS) -n $(WORKERS)

# Where it is set, every process that a test starts compiles armada's modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo faults test test-all unit quick lint check format durations mutants screenshots film transcripts docs reference clean python venv payload what-runs gpu gpu-wheels

help:
	@echo 'make demo    install armada and train a tiny model on this machine, from launch to verified checkpoint'
	@echo 'make test    the tests, less those marked long; says first what this machine cannot run'
	@echo 'make test-all  all tests: the long ones too, every Python interpreter, every fault many times over, other dice; hours'
	@echo 'make quick   lint, and the tests that the changes in this checkout touch; under a minute'
	@echo 'make unit    tests/unit alone'
	@echo 'make faults  links that break, processes that are killed, disks that fill, many times over'
	@echo 'make mutants  changes of one condition each in the decisions, and which tests notice them; half an hour'
	@echo 'make screenshots  every screen of the dashboard at four sizes, in docs/screenshots, and the page that shows them'
	@echo 'make film    docs/screenshots/rescue.cast, a recording of the dashboard: a run hangs and is rescued; needs root and tmux'
	@echo 'make transcripts  the commands and their output in docs/tutorial/own-script.md, from a real run; some minutes'
	@echo 'make docs    the documentation as a site, in site/; fails at a broken link or anchor'
	@echo 'make reference  the pages of docs/reference and protocol.json, made from the models, the command line and the checks'
	@echo 'make gpu     on a machine with a GPU: everything that only a GPU can show; PYTHON=… is one with torch (docs/how-to/gpu.md)'
	@echo 'make gpu-wheels  the wheels that such a Python lacks, for a machine without network'
	@echo 'make lint    ruff, mypy --strict, import-linter, vermin'
	@echo 'make check   lint and tests'

python:
	@test -n '$(PYTHON)' || { echo 'armada needs Python 3.11 or newer; set PYTHON=/path/to/python3'; exit 2; }

# The demo installs what a user would install, into a folder of its own; a second run finds everything there.
$(DEMO)/venv/.ready: pyproject.toml $(shell find armada remote_payload profiles examples -type f -not -name '*.pyc') | python
	@echo 'installing armada into $(DEMO)/venv'
	@test -x $(DEMO)/venv/bin/python || $(PYTHON) -m venv $(DEMO)/venv
	@$(DEMO)/venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps . \
	  && $(DEMO)/venv/bin/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

demo: $(DEMO)/venv/.ready
	@ARMADA_HOME="$(CURDIR)/$(DEMO)/home" $(DEMO)/venv/bin/python -P -m armada launch --host local quickstart --follow --no-daemon
	@echo 'to use these commands here: export ARMADA_HOME="$(CURDIR)/$(DEMO)/home" PATH="$(CURDIR)/$(DEMO)/venv/bin:$$PATH"'

# Both are keyed by what they are made of, so this costs a tenth of a second while nothing of it changed.
venv: | python
	@$(PYTHON) tests/tools/environments.py $(VENV)

# The payload's own tests need its environment: the same pinned lists that hosts get, by this machine's pip configuration.
payload: venv
	@$(PYTHON) tests/tools/environments.py $(PAYLOAD)

what-runs: | python
	@$(PYTHON) tests/tools/what_runs.py

test: what-runs payload
	$(RUN_TESTS) -m 'not long' $(PYTEST)

test-all: export ARMADA_ALL_INTERPRETERS = 1
test-all: export ARMADA_FAULT_KILLS = 150
test-all: export ARMADA_HISTORIES = 100000
test-all: export ARMADA_HOSTILE_RECORDS = 10000
test-all: export ARMADA_SEED := $(or $(ARMADA_SEED),$(shell date +%s))
test-all: what-runs payload
	@echo 'the dice are those of ARMADA_SEED=$(ARMADA_SEED)'
	$(RUN_TESTS) --timeout 7200 $(PYTEST)

unit: venv
	$(RUN_TESTS) -m 'not long' $(PYTEST) tests/unit

quick: lint
	@$(PYTHON) tests/tools/touched.py --run $(VENV)/bin/python -m pytest -q -n $(WORKERS) -m 'not long' $(PYTEST)

# The long form of the fault tests; `make test` runs each a few times.
# Every fault many times over, and the table of them in docs/explanation/reliability.md.
faults: payload
	ARMADA_FAULT_KILLS=150 $(RUN_TESTS) --timeout 7200 -p tests.fault_table --fault-table docs/explanation/reliability.md -m fault $(PYTEST)

# One mypy for all, because three read most modules twice.
lint: venv
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	MYPYPATH=remote_payload $(VENV)/bin/python -m mypy -p armada -p armada_agent -p armada_train -p benchmarks.gpu -p tests
	PYTHONPATH=remote_payload $(VENV)/bin/python $(VENV)/bin/lint-imports
	$(VENV)/bin/python $(VENV)/bin/vermin --quiet --no-tips -t=3.6- --violations remote_payload/armada_agent remote_payload/armada_log.py

check: lint test

format: venv
	$(VENV)/bin/python -m ruff format .
	$(VENV)/bin/python -m ruff check --fix .
	$(VENV)/bin/python -m tests.tools.reflow

# The table in docs/contributing/tests.md, from what the last runs wrote down.
durations: | python
	$(PYTHON) tests/tools/durations.py $(DURATIONS)

# MUTANTS chooses some of them, and how many random stories each is told: MUTANTS='--stories 200 proof.py'
mutants: venv
	$(VENV)/bin/python -m tests.tools.mutants $(MUTANTS)

# After a change of what the dashboard looks like; tests/tui/pictures are the tests' own: ARMADA_UPDATE_PICTURES=1 pytest tests/tui/test_pictures.py
screenshots: venv
	$(VENV)/bin/python -m tests.tools.screenshots

# Against a host of the fleet, whose GPUs are a stand-in: `asciinema play docs/screenshots/rescue.cast`
film: venv
	$(VENV)/bin/python -m tests.tools.film

# The lesson is run against an sshd of this machine; tests/payload/test_payload_transcripts.py compares it with the page.
transcripts: payload
	$(VENV)/bin/python -m tests.tools.transcripts

# The same pages as committed, made from the code; tests/unit/test_reference.py compares.
reference: venv
	$(VENV)/bin/python -m tests.tools.reference

docs: | python
	@$(PYTHON) tests/tools/environments.py $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet

# PYTHON has torch for CUDA; nothing is installed into it. TINY=1 tries the kit itself, without a GPU.
gpu: | python
	@'$(PYTHON)' -m benchmarks.gpu --python '$(PYTHON)' $(if $(TINY),--tiny) $(if $(WHEELS),--wheels '$(WHEELS)') \
	  $(if $(HOME_PYTHON),--home-python '$(HOME_PYTHON)') $(if $(ONLY),--only $(ONLY)) $(if $(AGAIN),--again) \
	  $(if $(BUDGET),--budget $(BUDGET)) $(if $(RESULTS),--results '$(RESULTS)')

# FOR is what `python -m benchmarks.gpu.wheels --describe` said on the other machine.
gpu-wheels: venv
	@$(VENV)/bin/python -m benchmarks.gpu.wheels $(if $(FOR),--for '$(FOR)',--python '$(PYTHON)')

clean:
	rm -rf $(VENV) $(PAYLOAD) $(DOCS) site $(VENV).lock $(DOCS).lock $(PAYLOAD).lock $(PAYLOAD).txt $(DEMO) $(DURATIONS) .tools .ci-logs dist build
