# wirespeed: `make demo` runs the main job, `make test` passes the tests. Both do all set-up, once.
#
# A step that is done leaves a stamp in .venv/stamps and is done again only when what it depends on is newer.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install
OUT    ?= out/demo
GPU_CSV ?= out/bench-gpu.csv
GPU_SECONDS ?= 540
ACCURACY_SVG ?= out/accuracy.svg
WEB ?= out/web

export RUST_MIN := $(shell sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
export PYTHON ?= python3

RUST_FILES    := $(shell find crates presets papers -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.csv' -o -name '*.json' \) -not -path '*/target/*' 2>/dev/null)
PACKAGE_FILES := Cargo.toml Cargo.lock pyproject.toml $(RUST_FILES)

.NOTPARALLEL:
.PHONY: help build demo test test-build test-slow bench bench-host accuracy docs web wheel sdist deb sbom release-check licences papers notebooks schema sample modules exclusions kernels kernel-compiler bench-gpu fmt clean check-tools

help: ## Print this
	@echo 'make demo        set up, simulate a router on ISP traffic, write a report ($(OUT)/report.html)'
	@echo 'make test        set up, run every check and test'
	@echo 'make build       set up; leaves the commands at $(BIN)/wirespeed and $(BIN)/wirespeedd'
	@echo 'make test-slow   the tests that take long (marked ignored in Rust, slow in Python)'
	@echo 'make bench       benchmarks, side by side with the peers that are installed'
	@echo 'make bench-host  this machine: dpdk-testpmd against the simulator, into validation/host/'
	@echo 'make accuracy    predictions beside published measurements of real servers ($(ACCURACY_SVG))'
	@echo 'make bench-gpu   the router: every mode of this machine'"'"'s GPU beside its CPU ($(GPU_CSV)), under 10 minutes'
	@echo 'make docs        the documentation, in site/'
	@echo 'make web         the browser edition, one page that needs no server and no network ($(WEB)/index.html)'
	@echo 'make wheel       a wheel with both commands, in dist/; WHEEL=--zig for older systems than this one (wants ziglang)'
	@echo 'make sdist       the sources as pip installs them, in dist/'
	@echo 'make deb         wirespeedd for Debian and Ubuntu, in dist/'
	@echo 'make sbom        the bill of materials of crates and Python packages, dist/wirespeed.cdx.json'
	@echo 'make release-check  packs all of it into an empty dist/ and walks the list of what a release has to be'
	@echo 'make licences    refresh THIRD-PARTY.md'
	@echo 'make papers      refresh the numbers in the READMEs of papers from their last full run; RUN=1 runs them before'
	@echo 'make notebooks   refresh the notebooks that Jupyter opens'
	@echo 'make schema      refresh docs/schema, and Python'"'"'s types of a summary'
	@echo 'make sample      refresh the sample of a run in README.md'
	@echo 'make modules     refresh docs/reference/modules.md, the list of modules'
	@echo 'make exclusions  refresh docs/reference/exclusions.md, the settings that do not go together'
	@echo 'make kernels     refresh the GPU kernels that are shipped (PTX; needs no GPU)'
	@echo 'make fmt         format Rust and Python'
	@echo 'make clean       remove everything that was built'

# --- set-up -----------------------------------------------------------------------------------------------------------

check-tools:
	@bash tests/house/tools.sh

$(STAMPS)/venv:
	@bash tests/house/tools.sh
	$(PYTHON) -m venv $(VENV)
	$(PIP) 'maturin>=1.9,<2'
	@mkdir -p $(STAMPS) && touch $@

# The development extra of pyproject.toml, without building the package for it.
$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*p["optional-dependencies"]["dev"], sep="\n")' > $(STAMPS)/dev.txt
	$(PIP) -r $(STAMPS)/dev.txt
	@touch $@

$(STAMPS)/docs: $(STAMPS)/venv docs/requirements.txt
	$(PIP) -r docs/requirements.txt
	@touch $@

# The extension is named so that cargo takes its features of shared libraries, and with them what was compiled for it.
DAEMON := --package wirespeed-py --package wirespeed-daemon --bin wirespeedd

# Python is linked in place, so only Rust and presets make it build again.
$(STAMPS)/package: $(STAMPS)/venv $(PACKAGE_FILES)
	@bash tests/house/tools.sh
	@echo 'building the extension: several minutes the first time'
	PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath $(VENV))" maturin develop --release --locked
	cargo build --release --locked $(DAEMON)
	install -m 755 "$${CARGO_TARGET_DIR:-target}/release/wirespeedd" $(BIN)/wirespeedd
	@touch $@

# The extension that tests run on: that of `make build` where it is up to date, or else one in cargo's profile of tests, of
# libraries that cargo's tests link, too. What tests are compiled of is compiled here, so that both have the same features.
# Packages of Python come meanwhile: pip takes half a minute of one core.
$(STAMPS)/tested: $(STAMPS)/venv $(PACKAGE_FILES)
	@bash tests/house/tools.sh
	@if [ ! -e $(STAMPS)/package ] || [ -n "$$(find $(PACKAGE_FILES) -newer $(STAMPS)/package -print -quit)" ]; then \
	  echo 'building the extension and the tests: several minutes the first time'; \
	  rm -f $(STAMPS)/package; \
	  $(MAKE) --no-print-directory $(STAMPS)/dev $(STAMPS)/docs & \
	  PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/python tests/house/extension.py; \
	  wait $$!; \
	  $(PIP) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])'); \
	  echo '$(BIN)/wirespeed is in the profile of tests from now on: `make build` makes the fast one'; \
	fi
	@touch $@

build: $(STAMPS)/package ## Leave the command at .venv/bin/wirespeed
	@echo 'ready: $(BIN)/wirespeed (try: $(BIN)/wirespeed demo)'

# --- the main job -----------------------------------------------------------------------------------------------------

demo: $(STAMPS)/package
	$(BIN)/wirespeed demo --out $(OUT)
	@echo; echo 'report: $(abspath $(OUT))/report.html'

# --- checks and tests -------------------------------------------------------------------------------------------------

# For what it depends on, too.
test test-build: export RUSTC_WORKSPACE_WRAPPER := $(abspath tests/house/rustc.sh)
test-build: $(STAMPS)/tested $(STAMPS)/dev $(STAMPS)/docs
test: test-build
	@$(BIN)/python tests/house/suites.py test

test-slow: $(STAMPS)/package $(STAMPS)/dev
	@$(BIN)/python tests/house/suites.py slow

bench: $(STAMPS)/package $(STAMPS)/dev
	@$(BIN)/python tests/house/suites.py bench

# Asks nothing of the machine but testpmd; exit code 3 where that is missing.
bench-host: $(STAMPS)/package
	$(BIN)/python validation/host/run.py

# Rows of parts that this build does not have are listed, and are no failure. Verdicts read errors from the file, once it is built in.
accuracy: $(STAMPS)/package
	@mkdir -p $(dir $(ACCURACY_SVG))
	$(BIN)/wirespeed accuracy --svg $(ACCURACY_SVG) --errors presets/accuracy.json

# The table and the capture are used where they are; whatever is missing is made. Exits with 77 where there is no GPU. The
# program is a file of 3 MB that needs the C library alone: it can be taken to another machine as it is.
GPU_TABLE   := $(wildcard ../shared/data/tables/full_table_v4v6.txt.gz)
ROUTER_BENCH = $${CARGO_TARGET_DIR:-target}/release/router-bench
GPU_CAPTURE := $(wildcard ../shared/data/traces/isp_nz_20100113.pcap.gz)

bench-gpu: check-tools
	@mkdir -p $(dir $(GPU_CSV))
	cargo rustc --release --locked --package wirespeed-router --bin router-bench -- -C strip=symbols
	@test $$(wc -c < $(ROUTER_BENCH)) -le 31457280 || { echo 'router-bench has more than 30 MiB: it is to be taken elsewhere' >&2; exit 1; }
	$(ROUTER_BENCH) probe
	timeout 600 $(ROUTER_BENCH) --csv $(GPU_CSV) --seconds $(GPU_SECONDS) \
	  $(if $(GPU_TABLE),--table $(GPU_TABLE)) $(if $(GPU_CAPTURE),--capture $(GPU_CAPTURE))

# --- documents --------------------------------------------------------------------------------------------------------

docs: $(STAMPS)/package $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'documentation: $(abspath site)/index.html'

# Sets up what it needs: the standard library for browsers by rustup, Pyodide and Vega by npm. Exit code 3 where either is missing.
web: $(STAMPS)/package
	$(BIN)/python packaging/web.py $(WEB)

# --- packages ---------------------------------------------------------------------------------------------------------

# A wheel for every Python from 3.11 on (abi3), and for systems whose C library is at least this machine's.
WHEEL ?=

wheel: $(STAMPS)/package
	$(PIP) 'wheel>=0.45'
	@rm -rf dist/wheel && mkdir -p dist/wheel
	PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath $(VENV))" maturin build --release --locked --out dist/wheel $(WHEEL)
	$(BIN)/python tests/house/licences.py --texts dist/wheel/licences.txt
	$(BIN)/python tests/house/wheel.py dist/wheel/*.whl $(BIN)/wirespeedd dist/wheel/licences.txt
	@rm dist/wheel/licences.txt && mv dist/wheel/*.whl dist/ && rmdir dist/wheel && ls dist/*.whl

sdist: $(STAMPS)/venv
	PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath $(VENV))" maturin sdist --out dist

deb: $(STAMPS)/package
	$(BIN)/python packaging/deb.py $(BIN)/wirespeedd dist

sbom: $(STAMPS)/package $(STAMPS)/dev
	@mkdir -p dist
	$(BIN)/python packaging/sbom.py dist/wirespeed.cdx.json

# Tools that judge packages, the extra `release` of pyproject.toml. Those of Debian: lintian, prometheus, shellcheck, groff.
$(STAMPS)/release: $(STAMPS)/venv pyproject.toml
	$(PIP) $$($(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*p["optional-dependencies"]["release"])')
	@touch $@

# Exit code 1 where something fails, 3 where a tool is missing. Nothing is published.
release-check: $(STAMPS)/release
	rm -rf dist
	$(MAKE) --no-print-directory wheel sdist deb sbom
	$(BIN)/python packaging/release.py sums
	$(BIN)/python packaging/release.py check

# PAPER names one room, and RUN=1 runs its study before.
PAPER ?=

papers: $(STAMPS)/package
	$(BIN)/python -m wirespeed.papers.readme $(PAPER) $(if $(RUN),--run)

licences: $(STAMPS)/venv
	$(BIN)/python tests/house/licences.py

notebooks: $(STAMPS)/dev
	$(BIN)/python tests/house/notebooks.py

schema: $(STAMPS)/package $(STAMPS)/dev
	$(BIN)/wirespeed schema > docs/schema/scenario.schema.json
	$(BIN)/wirespeed schema --of summary > docs/schema/summary.schema.json
	$(BIN)/python tests/house/summary_types.py

# CUDA's compiler as Python packages: the extra `cuda` of pyproject.toml.
kernel-compiler: $(STAMPS)/cuda
$(STAMPS)/cuda: $(STAMPS)/venv pyproject.toml
	$(PIP) $$($(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*p["optional-dependencies"]["cuda"])')
	@touch $@

kernels: $(STAMPS)/cuda
	$(BIN)/python tests/house/kernels.py

modules: $(STAMPS)/venv
	$(BIN)/python tests/house/modules.py

exclusions: $(STAMPS)/package
	$(BIN)/python tests/house/refused_pairs.py

sample: $(STAMPS)/package
	$(BIN)/python tests/house/sample.py

fmt: $(STAMPS)/dev
	cargo fmt --all
	$(BIN)/ruff format python tests docs
	$(BIN)/ruff check --fix --quiet python tests docs

clean:
	rm -rf $(VENV) target site out
	find python -name '_wirespeed*.so' -delete
