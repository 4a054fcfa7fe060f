# Commands for users and developers. Each target runs one script; `make help` lists them.
#
# PG_CONFIG chooses the PostgreSQL server: make test PG_CONFIG=/opt/pg17/bin/pg_config
# scripts/build-server builds one: make test PG_CONFIG="$(scripts/build-server 18)"
export PG_CONFIG
# Not another server instead of one that a command could not name.
ifeq ($(origin PG_CONFIG)$(strip $(PG_CONFIG)),command line)
$(error PG_CONFIG is empty)
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-stop demo-nodes test test-server test-plain test-clients test-long bench bench-nodes bench-serve bench-cores book reference lint stage install package test-packages release test-release

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

setup: ## install missing packages for building and testing (Debian, Ubuntu)
	@scripts/setup tests

demo: ## start a private server with tables whose ids come from leaf
	@scripts/demo

demo-stop: ## stop the server of the demo
	@scripts/demo-stop

demo-nodes: ## kill the leader of three servers that Patroni runs and that feed a fourth, and show the ids
	@scripts/demo-nodes

test: ## run the whole suite: algorithms, model checks, real servers
	@scripts/test

test-server: ## run the part of the suite that needs real servers
	@scripts/test-server

test-clients: ## run the programs of docs/clients: drivers, ORMs, PgBouncer
	@scripts/test-clients

test-packages: ## build packages and images twice, install them in a clean root of Debian, and run them
	@scripts/test-packages

test-plain: ## run what both editions promise on servers with the plain one
	@scripts/test-plain

test-long: ## kill processes and make random calls for some minutes
	@scripts/test-long

bench: ## compare leaf with sequences, write bench/RESULTS.md and draw the plots of the manual
	@scripts/bench

bench-nodes: ## measure a centre and its shards, write bench/NODES.md
	@scripts/bench nodes

bench-cores: ## measure what a shared counter costs on this machine, write bench/CORES.md
	@cargo run --release -p leaf-bench -- cores

bench-serve: ## measure ids over HTTP, write bench/SERVE.md
	@scripts/bench serve

book: ## build the manual into target/book
	@scripts/book

reference: ## write what the reference has from the sources
	@cargo run -q -p leaf-lint --bin leaf-reference -- --write
	@LEAF_WRITE_REFERENCE=1 scripts/test-server --test docs -- reference::

lint: ## check versions, imports, format, clippy, licences, documentation and crates; warnings are errors
	@scripts/lint

stage: ## build leaf into a private copy of the server, for tests and demo
	@scripts/stage

install: ## build leaf and copy it into the server that PG_CONFIG names
	@scripts/install

package: ## build Debian packages, for the server that PG_CONFIG names, and the archive for PGXN
	@scripts/package

release: ## release VERSION, or a candidate (0.1.0-rc1): commit, tag, packages, checksums; nothing is published
	@scripts/release $(VERSION)

test-release: ## rehearse a candidate and its version in a clone
	@scripts/test-release
