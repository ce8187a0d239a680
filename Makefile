# Everything a developer needs, in a few words: `make help`.
#
# Needed on the machine: CPython >= 3.11 with venv, a Rust toolchain and a C compiler. Everything
# else comes from PyPI and crates.io into .venv-*/ and target/.

SHELL := bash
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

# rustup's toolchain is often missing from the PATH of a non-interactive shell.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Pyright brings its own Node.js as a wheel and ignores the installed one.
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

CARGO ?= cargo
CARGO_FLAGS ?= --locked
STEP := scripts/step.sh

# The stable ABI makes one wheel for every CPython from 3.11 on. It is built once and tested on two.
WHEEL_STAMP := build/wheel/stamp
SOURCES := $(shell find crates python -type f \( -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -name '*.toml' \
	-o -name py.typed \)) Cargo.toml $(wildcard Cargo.lock) pyproject.toml scripts/backend.py README.md LICENSE-MIT LICENSE-APACHE

# Recipes begin with one of these. with_tools and with_wheel set `$$venv` to an environment with the
# pinned tools; with_wheel installs hyperslab there too. PYO3_PYTHON keeps the Rust build off a
# `python3` that may be too old. `set -e` is needed because macOS ships a make without .SHELLFLAGS.
with_tools := set -e; venv=$$(scripts/venv.sh newest);
with_rust := set -e; PYO3_PYTHON=$$(scripts/find-python.sh newest); export PYO3_PYTHON;
with_wheel := set -e; venv=$$(scripts/venv.sh newest build/wheel/*.whl);

# `make soak`: hours, and in each round of a test: trials of plans, killed processes.
HOURS ?= 1
TRIALS ?= 50
KILLS ?= 100
# `make fuzz`: seconds for each target.
SECONDS ?= 60

##@ The two commands

run: $(WHEEL_STAMP) ## Write, copy, read and check realistic data; print how fast (RUN="--quick", RUN="--dir D")
	@$(with_wheel) "$$venv/bin/python" benches/ocean.py $(RUN)

test: tools test-rust lint-python test-docs test-python test-package ## Run every test, formatting check and lint
	@printf '\n==> All tests passed\n'

##@ The everyday loop

dev: tools ## Build without optimising, and install the working tree: an edit in Python then needs no build
	@$(with_rust) venv=$$(scripts/venv.sh newest); rm -f "$$venv/.wheel" "$$venv/.develop"; \
	$(STEP) 'Extension module, for development' env PATH="$$PWD/$$venv/bin:$$PATH" MATURIN_PEP517_ARGS='--profile dev --locked' \
	    "$$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .; \
	touch "$$venv/.develop"

quick: ## Check what differs from BASE (HEAD): format, lints and the tests near it, with few generated cases
	@$(with_tools) \
	if [[ ! -e $$venv/.develop || -n $$(find crates Cargo.lock -newer "$$venv/.develop" -type f -print -quit) ]]; then \
	    $(MAKE) --no-print-directory dev; \
	fi; \
	"$$venv/bin/python" scripts/quick.py --base $(or $(BASE),HEAD) $(CHANGED)

##@ Parts of the tests

lint: lint-rust lint-python ## Check formatting, lints and types

lint-rust: tools
	@$(STEP) 'Rust: formatting' $(CARGO) fmt --all --check
	@$(with_rust) $(STEP) 'Rust: clippy' $(CARGO) clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

lint-python: $(WHEEL_STAMP)
	@$(with_wheel) \
	$(STEP) 'Python: formatting' "$$venv/bin/ruff" format --check .; \
	$(STEP) 'Python: ruff' "$$venv/bin/ruff" check .; \
	$(STEP) 'Words' "$$venv/bin/python" scripts/check_prose.py; \
	$(STEP) 'Python: layers' env PYTHONPATH=python "$$venv/bin/lint-imports" --no-cache; \
	$(STEP) 'Python: mypy' "$$venv/bin/mypy" --python-executable "$$venv/bin/python"; \
	$(STEP) 'Python: pyright' "$$venv/bin/pyright" --pythonpath "$$venv/bin/python"

test-rust: tools test-servers ## Check formatting, and run clippy with the Rust tests and documentation tests
	@$(STEP) 'Rust: formatting' $(CARGO) fmt --all --check
	@$(with_rust) $(STEP) 'Rust: clippy and tests' scripts/rust-tests.sh $(CARGO_FLAGS)

test-python: $(WHEEL_STAMP) test-servers test-zarr ## Run the Python tests on the newest Python, and the everyday lane on the oldest (TESTS="-k name", ONE=1)
	@$(with_wheel) oldest=$(if $(ONE),$$venv,$$(scripts/venv.sh oldest build/wheel/*.whl)); \
	if [[ $$venv == "$$oldest" ]]; then \
	    printf '\n==> Tested on one CPython: %s\n' "$$venv"; \
	    $(STEP) "Python: tests ($$venv)" scripts/pytest.sh "$$venv/bin/python" -q $(TESTS); \
	else \
	    $(STEP) "Python: all tests on the newest Python ($$venv), the everyday lane on the oldest ($$oldest)" \
	        scripts/pytest-both.sh "$$venv/bin/python" "$$oldest/bin/python" -q $(TESTS); \
	fi

test-servers: ## Install the programs that tests start: moto, azurite, fake-gcs-server, nginx, h5dump (build/servers)
	@$(STEP) 'Servers of the tests' scripts/test-servers.sh

test-zarr: ## Download zarr-python's own tests, which ours run with our pipeline (build/zarr-tests)
	@$(STEP) "zarr-python's tests" scripts/zarr-tests.sh

test-docs: $(WHEEL_STAMP) ## Build the Rust documentation and the site; run the examples of README.md and docs/, and `make run`
	@$(with_rust) RUSTDOCFLAGS='-D warnings' $(STEP) 'Rust: documentation' $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps --quiet
	@$(with_wheel) \
	$(STEP) 'Examples of README.md and docs/' "$$venv/bin/python" scripts/check_docs.py; \
	$(STEP) 'make run, with small data' "$$venv/bin/python" benches/ocean.py --quick
	@$(STEP) 'Site of the documentation' scripts/site.sh

soak: $(WHEEL_STAMP) ## Try each promise of docs/guarantees.md for hours, resumable (HOURS=1, TESTS="kill zip", KILLS=100, TRIALS=50)
	@$(with_wheel) $(STEP) 'Promises' "$$venv/bin/python" scripts/soak.py --hours $(HOURS) --kills $(KILLS) \
	    --trials $(TRIALS) $(TESTS)

fuzz: $(WHEEL_STAMP) ## Feed damaged input to every parser, resumable (SECONDS=60 for each target, TARGET="zip shard")
	@$(with_wheel) $(STEP) 'Fuzzing' "$$venv/bin/python" scripts/fuzz.py --seconds $(SECONDS) $(TARGET)

sanitize: tools ## Run the Rust tests of codec, store and array under AddressSanitizer and ThreadSanitizer (SANITIZER=address chooses)
	@for each in $(or $(SANITIZER),address thread); do $(STEP) "Sanitizer: $$each" scripts/sanitize.sh $$each || exit; done

test-package: $(WHEEL_STAMP) ## Check the wheel, the sdist and the crates as they would be published
	@$(with_tools) $(STEP) 'Package: contents of wheel and sdist' \
	    "$$venv/bin/python" scripts/check_package.py build/wheel/*.whl build/wheel/*.tar.gz; \
	$(STEP) 'Package: wheel in an empty environment' scripts/try-wheel.sh "$$venv/bin/python" build/wheel/*.whl
	@$(with_rust) $(STEP) 'Package: crates' scripts/package-crates.sh $(CARGO_FLAGS)

##@ Work

bench: $(WHEEL_STAMP) ## Measure against other libraries and the machine (ROW="scan-zstd", QUICK=1, DOCS=1)
	@$(with_rust) $(STEP) 'Building the plain loops' $(CARGO) build $(CARGO_FLAGS) --release --quiet --package hyperslab-limit
	@set -e; venv=$$(scripts/venv.sh bench build/wheel/*.whl); \
	"$$venv/bin/python" benches/run.py $(foreach row,$(ROW),--row $(row)) $(if $(QUICK),--quick) $(BENCH); \
	$(if $(DOCS),"$$venv/bin/python" scripts/update_performance.py --bench build/bench/results.json)

wheel: $(WHEEL_STAMP) ## Build the wheel and the sdist into dist/
	@mkdir -p dist; rm -f dist/hyperslab-*; cp build/wheel/*.tar.gz build/wheel/*.whl dist; ls -l dist

docs: tools ## Build the Rust documentation (target/doc) and the site of guides and Python reference (build/site)
	@$(with_rust) $(STEP) 'Rust: documentation' $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps
	@$(STEP) 'Site of the documentation' scripts/site.sh

fmt: ## Format everything
	@$(with_tools) $(CARGO) fmt --all; "$$venv/bin/ruff" format .; "$$venv/bin/ruff" check --fix --quiet .

lock: ## Pin the newest development dependencies anew (requirements/)
	@"$$(scripts/find-python.sh newest)" scripts/lock.py newest > build/lock && mv build/lock requirements/py312.txt
	@"$$(scripts/find-python.sh oldest)" scripts/lock.py oldest > build/lock && mv build/lock requirements/py311.txt
	@"$$(scripts/find-python.sh newest)" scripts/lock.py bench > build/lock && mv build/lock requirements/bench.txt
	@"$$(scripts/find-python.sh oldest)" scripts/lock.py servers > build/lock && mv build/lock requirements/servers.txt
	@"$$(scripts/find-python.sh oldest)" scripts/lock.py docs > build/lock && mv build/lock requirements/docs.txt
	@"$$(scripts/find-python.sh oldest)" scripts/lock.py release > build/lock && mv build/lock requirements/release.txt

clean: ## Remove everything that was built, downloaded environments included
	rm -rf build dist target .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:
	@printf '\nhyperslab: chunked N-dimensional arrays at the speed of the disk and the codec\n'
	@awk 'BEGIN { FS = ":.*## " } \
	    /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nPYTHON=/path/to/python chooses the newest Python to use.\n\n'

# ---- behind the scenes

tools:
	@$(STEP) 'Tools' scripts/check-tools.sh

$(WHEEL_STAMP): $(SOURCES) requirements/py311.txt requirements/py312.txt
	@scripts/check-tools.sh
	@$(with_tools) PATH="$$PWD/$$venv/bin:$$PATH"; $(STEP) 'Building the wheel' scripts/wheel.sh
	@touch $@

.PHONY: run test dev quick lint lint-rust lint-python test-rust test-servers test-zarr test-docs test-python test-package soak fuzz sanitize bench wheel docs fmt lock \
	clean help tools
