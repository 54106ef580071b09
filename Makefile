# SPDX-License-Identifier: Apache-2.0
# What a person types. How one configuration is built is in mk/build.mk; what the tests are is in
# tests/run-tests.
.DEFAULT_GOAL := build

HOST_ARCH := $(shell uname -m)
ARCH ?= $(HOST_ARCH)
PYTHON ?= python3

# A plain `make` uses every core that the memory suffices for; a -j that you give is kept.
JFLAG = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell tools/jobs))
ONE = +@$(MAKE) --no-print-directory $(JFLAG) -f mk/build.mk ARCH=$(ARCH)

.PHONY: build kernels test unit sim checkop gpu golden-test invariance steps cli hub-test server-test browser-test check sanitize tsan soak attack described fuzz golden bench pictures \
        first first-bare own-build options install uninstall deb dist run serve chat setup model cross-x86 cross-arm format \
        check-format check-kernels clean help all

# Files that an earlier `sudo make` left behind would end the build in the middle.
own-build:
	@foreign=$$(find build -maxdepth 3 ! -user $$(id -u) -print -quit 2>/dev/null); \
	if [ "$$(id -u)" != 0 ] && [ -n "$$foreign" ]; then \
	    echo "$$foreign belongs to $$(stat -c %U "$$foreign"), perhaps since a sudo make; to have it back:" >&2; \
	    echo "  sudo chown -R $$(id -u) build" >&2; exit 1; \
	fi
	@mkdir -p build 2>/dev/null || { echo "the folder build cannot be made in $(CURDIR): is it yours?" >&2; exit 1; }

# CUDA=1: with kernels for all NVIDIA GPUs, whether or not there is one here; CUDA=0: without.
kernels: own-build
	@[ "$(CUDA)" != 1 ] || tools/setup --kernels

build: kernels
	$(ONE) MODE=release program $(if $(filter $(HOST_ARCH),$(ARCH)),public-library)
	@mkdir -p build && ln -sfn $(ARCH)/whimbrel build/whimbrel
	@echo "built build/$(ARCH)/whimbrel (also as build/whimbrel); next: build/whimbrel doctor"

all: build
	$(ONE) MODE=test tests

setup:
	@tools/setup

model:
	@tools/fetch-default-model

test: own-build
	+@tests/run-tests

# One part of `make test` each.
unit sim checkop gpu golden-test invariance steps cli first hub-test server-test browser-test check sanitize tsan:
	+@tests/run-tests $@

# Half an hour of mixed load on the server; SECONDS=600 for another time, SOAK_FLAGS="--clients 40 --seed 7".
soak: build
	tests/server/soak.py --seconds $(if $(filter file,$(origin SECONDS)),1800,$(SECONDS)) $(SOAK_FLAGS)

# Attacks beside polite clients: SECONDS=900 ATTACKS=200 SEED=N ATTACK_FLAGS=--strict, see tests/server/attack.py.
ATTACKS ?= 200
attack: build
	tests/server/attack.py --seconds $(if $(filter file,$(origin SECONDS)),900,$(SECONDS)) --attacks $(ATTACKS) \
	    --seed $(SEED) $(ATTACK_FLAGS)

# The first five minutes on bare systems made by debootstrap, as root, for half an hour; see docs/troubleshooting.md.
first-bare:
	tests/first/bare-root.sh $(SUITES)

# MODEL=auto takes what fits the machine, which may be the default model.
NAMED = $(filter-out auto,$(MODEL))

# From a fresh checkout to a server: packages, program, model, and answers on http://127.0.0.1:8080. The server fetches
# the model itself, when it has its port. HOST counts on the command line only: some shells export the machine's name.
PORT ?= 8080
HOST_FLAG = $(if $(filter command%,$(origin HOST)),$(if $(HOST),--host '$(HOST)'))
serve: own-build
	@tools/setup --for-use $(if $(NAMED),--no-model,--later-model)
	+@$(MAKE) --no-print-directory build
	@exec build/whimbrel serve $(if $(MODEL),'$(MODEL)') $(if $(NAMED),,--fetch tools/fetch-default-model) --port $(PORT) $(HOST_FLAG) $(ARGS)

# The same to a conversation in the terminal.
chat: own-build
	@tools/setup --for-use $(if $(NAMED),--no-model)
	+@$(MAKE) --no-print-directory build
	@exec build/whimbrel chat $(if $(MODEL),'$(MODEL)') $(ARGS)

PROMPT ?= Name three birds that live by the sea.
run: build $(if $(MODEL),,model)
	build/whimbrel run $(if $(MODEL),'$(MODEL)') -p "$(PROMPT)"

bench: build $(if $(MODEL),,model)
	build/whimbrel bench $(if $(MODEL),'$(MODEL)') -p 128 -n 32 $(BENCH_FLAGS)

# Not built here: `sudo make install` would leave files of root in build/.
install uninstall:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" tools/install-files $@

# Archives and packages for machines that build nothing: both CPU families, kernels for NVIDIA GPUs in them (CUDA=0: without).
DIST_ARCHES ?= x86_64 aarch64
dist check-kernels: CUDA = 1
dist: own-build
	@tools/setup --for-dist $(DIST_ARCHES)
	@[ "$(CUDA)" != 1 ] || tools/setup --kernels
	+@for arch in $(DIST_ARCHES); do \
	    $(MAKE) --no-print-directory $(JFLAG) -f mk/build.mk ARCH=$$arch STATIC=1 DIST=1 MODE=release CUDA=$(CUDA) program || exit 1; \
	done
	@tools/make-dist $(DIST_ARCHES)

# The machine code of all GPU kernels, for all kinds of GPU: no spills, and the matrix unit where it should be.
check-kernels: kernels
	@tools/setup --nvdisasm
	$(ONE) CUDA=1 MODE=release build/kernels/images
	@tools/check-kernels

deb: build
	@DEB_DIR="$(or $(DEB_DIR),build)" tools/make-deb

# The page of commands and options, from the program itself.
options: build
	@build/whimbrel help --markdown > docs/options.md

# The pictures of the documentation, from their data.
pictures:
	@tools/draw-pictures

EXAMPLES ?= 20
SEED ?= 1
described: build
	tests/server/described.sh $(EXAMPLES) $(SEED)

SECONDS ?= 60
fuzz:
	$(ONE) MODE=fuzz fuzzers
	@for f in build/$(ARCH)-fuzz/tests/fuzz/fuzz_*; do \
	    case $$f in *.*) continue;; esac; \
	    n=$${f##*/fuzz_}; mkdir -p tests/data/corpus/$$n build/fuzz/found/$$n; \
	    echo "fuzz $$n: $(SECONDS) s"; \
	    $$f -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
	        -artifact_prefix=build/fuzz/found/$$n/ build/fuzz/found/$$n tests/data/corpus/$$n \
	        || { echo "fuzz $$n: found a crash; the input is in build/fuzz/found/$$n/"; exit 1; }; \
	done

# With TEMPLATES="FOLDER..." only those: what Jinja2 makes of their *.jinja, and whether whimbrel makes the same of them.
TEMPLATE_TEST := build/$(ARCH)-test/tests/unit/jinja/template_test
GOLDEN_PYTHON := build/venv/bin/python
ifneq ($(TEMPLATES),)
golden: build/venv/ready
	mkdir -p build/templates
	$(GOLDEN_PYTHON) tools/golden/make_template_golden.py --out build/templates --templates $(TEMPLATES)
	$(ONE) MODE=test $(TEMPLATE_TEST)
	$(TEMPLATE_TEST) build/templates/conversations.json.xz
else
golden: build/venv/ready
	$(GOLDEN_PYTHON) tools/golden/make_golden.py --out tests/data/golden $(GOLDEN_FLAGS)
	$(GOLDEN_PYTHON) tools/golden/mixed.py --out tests/data/mixed
	$(GOLDEN_PYTHON) tools/golden/twins.py --data tests/data/golden --out tests/data/twins
	$(GOLDEN_PYTHON) tools/golden/make_draft_golden.py --data tests/data/golden --out tests/data/drafts --check
	$(GOLDEN_PYTHON) tools/golden/make_serial_golden.py --data tests/data/golden --out tests/data/drafts --check
endif

build/venv/ready: tools/golden/requirements.txt
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install --disable-pip-version-check -q -r $<
	@touch $@

# Programs for the other CPU family (or for the own one) that need the C library and nothing else.
cross-x86: ARCH = x86_64
cross-arm: ARCH = aarch64
cross-x86 cross-arm: kernels
	$(ONE) STATIC=1 MODE=release program
	$(ONE) STATIC=1 MODE=test tests program
	@echo "built build/$(ARCH)/whimbrel and build/$(ARCH)-test/ (they need the C library only)"

format:
	@tools/check-format --mend

check-format:
	@tools/check-format

clean:
	rm -rf build

help:
	@echo "To use whimbrel:"
	@echo "  make serve         install what is missing, build, fetch the default model, serve it over HTTP"
	@echo "                     (without MODEL it offers what fits; MODEL=auto, a path or a name, PORT=8080 HOST=address ARGS=\"more options\")"
	@echo "  make chat          the same, but talk in the terminal (MODEL=path ARGS=\"more options\")"
	@echo "  make               build the program (build/whimbrel)"
	@echo "  make setup         install the packages it needs and fetch the default model"
	@echo "  make run           one answer of the default model (PROMPT=\"...\" asks something else)"
	@echo "  make bench         time the default model (MODEL=path for another)"
	@echo "  make install       put it and libwhimbrel into PREFIX=/usr/local (DESTDIR=folder before it); uninstall removes it"
	@echo "  make deb           a Debian package of it"
	@echo "  make dist          archives for x86_64 and aarch64 that install without building, in build/dist"
	@echo "  make clean         delete everything that was built"
	@echo "To work on it:"
	@echo "  make test          everything that must pass before a commit; ends with a count"
	@echo "  make unit | sim | checkop | gpu | golden-test | invariance | steps | cli | first | hub-test | server-test | browser-test | check   one part of it"
	@echo "  make sanitize      unit, sim, checkop, golden and fuzz corpus with address and undefined-behaviour checks"
	@echo "  make tsan          the step loop and the server's threads, with data-race checks"
	@echo "  make first-bare    the first five minutes on bare systems (debootstrap, root, network; SUITES=\"bookworm\")"
	@echo "  make soak          half an hour of mixed load on the server (SECONDS=1800)"
	@echo "  make attack        200 attacks beside polite clients, for a quarter of an hour (SECONDS=900 ATTACKS=200 SEED=1)"
	@echo "  make described     schemathesis against the server (EXAMPLES=20 SEED=1)"
	@echo "  make fuzz          look for crashing inputs, SECONDS=60 for each parser (needs clang)"
	@echo "  make golden        make the golden data again from the independent Python implementation;"
	@echo "                     TEMPLATES=\"FOLDER...\": hold the chat templates (*.jinja) of folders against Jinja2 instead"
	@echo "  make cross-x86     an x86_64 program that needs the C library only, and its tests; cross-arm: the same for aarch64"
	@echo "  make check-kernels the machine code of the GPU kernels: spills, and who uses the matrix unit"
	@echo "  make options       write docs/options.md again, after a change of apps/options/options.def"
	@echo "  make pictures      draw docs/images/*.svg again, after a change of their data"
	@echo "  make format        format the sources (clang-format 14); check-format only looks"
	@echo "Options: CUDA=1 kernels for NVIDIA GPUs also where there is none, CUDA=0 none; V=1 shows the commands, WERROR=0 lets warnings pass, CC=... another compiler"
