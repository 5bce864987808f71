# The project's commands. Each installs what is missing, builds what is out of date, then does its work.
.DEFAULT_GOAL := help
.PHONY: help build pretrain test test-slow bench bench-schedules format lint clean
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

help: ## these lines
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 20

build: ## build/braid
	@tools/build braid

pretrain: build ## train a small Llama on English text for two minutes; CORPUS=dir for text of one's own
	@tools/pretrain

test: ## the tests, a few minutes
	@tools/test fast

test-slow: ## what takes longer, or needs PyPI's full torch and transformers (installed into .deps/venv)
	@tools/test slow

bench: ## braid against PyTorch's own pipelining, on the same model, ranks and threads
	@tools/install_python
	@tools/build braid
	@BRAID_PYTHON='$(CURDIR)/.deps/venv/bin/python' bench/run

bench-schedules: ## schedules against 1F1B and against their own simulation, on real compute
	@tools/build braid
	@bench/schedules

format: ## clang-format, in place
	@tools/install_dependencies
	@tools/lint format

lint: ## clang-format and clang-tidy, nothing changed; ALL=1 takes the folders that see torch headers too
	@tools/build braid_base
	@tools/lint check $(if $(ALL),all,plain)

clean: ## removes the build folders; .deps, with what was downloaded, stays
	@rm -rf build build-*
