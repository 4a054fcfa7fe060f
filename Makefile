# The commands people type. Each target is one script; `make help` lists them.
#
# PG_CONFIG chooses the PostgreSQL server: make test PG_CONFIG=/opt/pg17/bin/pg_config
# scripts/build-server builds one: make test PG_CONFIG="$(scripts/build-server 18)"
export PG_CONFIG

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-stop test test-server test-long bench lint stage install

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: ## install what is missing on this machine (Debian, Ubuntu)
	@scripts/setup

demo: ## a private server with a table that draws its ids from leaf
	@scripts/demo

demo-stop: ## stop that server
	@scripts/demo-stop

test: ## the whole suite: algorithms, model checks, real servers
	@scripts/test

test-server: ## the part of it that runs on real servers
	@scripts/test-server

test-long: ## minutes of kills and of random calls
	@scripts/test-long

bench: ## measure leaf against sequences, write bench/RESULTS.md
	@scripts/bench

lint: ## format, clippy and documentation, warnings are errors
	@scripts/lint

stage: ## build leaf into a private copy of the server, for tests and demo
	@scripts/stage

install: ## build leaf and copy it into the server that PG_CONFIG names
	@scripts/install
