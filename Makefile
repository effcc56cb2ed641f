# make run    start Drainboard          (PORT=8765, DRAINBOARD_DATA=.drainboard, EMPTY=1, DATABASE_URL=...)
# make test   all checks and tests      (ARGS="tests/runs -k gap" runs only those tests)
# make verdicts   agents that die at random places: is what is called safe safe?  (ARGS="--points 10000 --seed S --runtime dbos")
# make fuzz   damaged and torn exports  (SEED=text repeats a run; N=5000 files of each format, SERVED=20 of them through the pages)
# make lock   renew the lock files      (for maintainers; needs uv)

# The first Python that is new enough; with none, python3, which then says what is wrong.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)

.PHONY: run test verdicts fuzz lock python
.DEFAULT_GOAL := run

run: python
	@$(PYTHON) config/bootstrap.py run
	@exec .venv/bin/python manage.py up

test: python
	@$(PYTHON) config/bootstrap.py test
	@exec .venv/bin/python tests/run.py $(ARGS)

verdicts: python
	@$(PYTHON) config/bootstrap.py test
	@PYTHONPATH=.:client/src .venv/bin/python -m tests.verdicts $(ARGS)

fuzz: python
	@$(PYTHON) config/bootstrap.py test
	@PYTHONPATH=.:client/src .venv/bin/python -m tests.fuzz

python:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "drainboard: Drainboard needs Python 3.11 or newer, and $(PYTHON) is not there." >&2; exit 1; }

COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet

lock:
	$(COMPILE) --upgrade requirements.in -o requirements.lock
	$(COMPILE) --upgrade requirements-test.in -c requirements.lock -o requirements-test.lock
