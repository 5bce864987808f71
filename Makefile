# The project's commands. Each installs what is missing, builds what is out of date, then runs.
.DEFAULT_GOAL := help
.PHONY: help build pretrain test test-slow bench bench-schedules format lint clean
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

help: ## lists these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 20

build: ## builds build/braid
	@tools/build braid

pretrain: build ## trains a small Llama on English text for two minutes; CORPUS=DIR uses your own text
	@tools/pretrain

test: ## runs the tests, a few minutes
	@tools/test fast

test-slow: ## runs the tests that take longer or need PyPI's full torch, transformers and others (installed in .deps/venv)
	@tools/test slow

bench: ## compares braid with PyTorch: pipelining, tensor parallelism, sharding; same model, ranks and threads
	@tools/install_python
	@tools/build braid
	@BRAID_PYTHON='$(CURDIR)/.deps/venv/bin/python' bench/run

bench-schedules: ## compares schedules with 1F1B and with their own simulation, in real computation
	@tools/build braid
	@bench/schedules

format: ## runs clang-format in place
	@tools/install_dependencies
	@tools/lint format

lint: ## runs clang-format and clang-tidy, changing nothing; ALL=1 includes the folders with torch headers
	@tools/build braid_base
	@tools/lint check $(if $(ALL),all,plain)

clean: ## removes the build folders; keeps .deps with the downloads
	@rm -rf build build-*
