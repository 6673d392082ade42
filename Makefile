# Two commands: `make run` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv/bin
HOST ?= 127.0.0.1
PORT ?= 8501
NPM := PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/npm
SKIP_PIP_CHECK := --quiet --disable-pip-version-check

.PHONY: run test test-browser test-others check check-web format bench bench-engine calibrate develop clean

# HOST=0.0.0.0 make run: any machine that reaches the port can use the app
run: .venv/runtime
	$(VENV)/python -m ui.prepare
	$(VENV)/python -m streamlit run app.py --server.address $(HOST) --server.port $(PORT) \
		--server.fileWatcherType none

# kernels are compiled first, once for both halves
test: .venv/develop
	$(VENV)/python -m tests.tools.compile
	$(MAKE) --no-print-directory --jobs 2 test-browser test-others

# Side by side, each in one process: the browser half waits for pages most of the time, so the other
# half has a core and more to itself; a second pytest-xdist worker there would be a third process for
# two cores. One thread of torch each, or they wait for each other's.
test-browser test-others check: export OMP_NUM_THREADS := 1

test-browser:
	$(VENV)/python -m pytest -m browser

test-others:
	$(VENV)/python -m pytest -m "not browser"

check: .venv/develop check-web
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/python -m pytest -n 2 --dist worksteal -m "not browser and not slow" -q

# the JavaScript of web/: format and lint, types, unit tests; Node comes from requirements-dev.txt
check-web: .venv/web
	$(NPM) run --silent check
	$(NPM) run --silent test

format: .venv/develop .venv/web
	$(VENV)/ruff format .
	$(VENV)/ruff check --fix .
	$(NPM) run --silent format

bench: .venv/runtime
	$(VENV)/python -m sim bench

bench-engine: .venv/develop
	$(VENV)/python -m benchmarks.engine

# the tools and the hooks (a copy without git has none); then the app, run again after each edit
develop: .venv/develop
	-@if [ -e .git ]; then $(VENV)/pre-commit install > /dev/null; fi
	$(VENV)/python -m ui.prepare
	$(VENV)/python -m streamlit run app.py --server.address $(HOST) --server.port $(PORT)

# make calibrate TABLE=step_latencies.csv [ALLREDUCE=allreduce.csv]
calibrate: .venv/runtime
	@test -n "$(TABLE)" || { echo "usage: make calibrate TABLE=path [ALLREDUCE=path]"; exit 2; }
	$(VENV)/python -m sim.latency.calibration $(TABLE) $(ALLREDUCE)

bench-ui: .venv/develop
	$(VENV)/python -m benchmarks.cold_start
	$(VENV)/python -m benchmarks.browser
	$(VENV)/python -m benchmarks.crowd --seconds 120

screenshots: .venv/develop
	$(VENV)/python -m benchmarks.screenshots

clean:
	rm -rf .venv .numba_cache .mypy_cache .pytest_cache .ruff_cache node_modules screenshots static/*

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

.venv/runtime: .venv/created requirements.txt
	$(VENV)/pip install $(SKIP_PIP_CHECK) -r requirements.txt
	touch $@

.venv/develop: .venv/runtime requirements-dev.txt
	$(VENV)/pip install $(SKIP_PIP_CHECK) -r requirements-dev.txt
	touch $@

.venv/web: .venv/develop package.json package-lock.json
	$(NPM) ci --no-audit --no-fund
	touch $@
