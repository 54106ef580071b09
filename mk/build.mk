# SPDX-License-Identifier: Apache-2.0
# Builds one configuration: ARCH (CPU family) x MODE, into build/<ARCH><suffix of MODE>/.
#   MODE=release  the program                          build/<ARCH>/
#   MODE=test     with the guard backend and asserts   build/<ARCH>-test/
#   MODE=san      test + address and UB sanitizers     build/<ARCH>-san/
#   MODE=tsan     test + thread sanitizer              build/<ARCH>-tsan/
#   MODE=fuzz     test + libFuzzer (clang)             build/<ARCH>-fuzz/
#   MODE=emulated test for an emulator                 build/<ARCH>-emulated/
# STATIC=1 links all libraries but the C library statically (one that is static opens no driver), DIST=1 OpenSSL too; unit tests load
# cmocka, too, which has no static form in Debian.
# Goals: program, library (all of src/), public-library (libwhimbrel, shared and static), examples, tests (all test programs), unit, unit-cpu, sim, checkop, golden, invariance, steps, gpu, replay, fuzzers.
HOST_ARCH := $(shell uname -m)
ARCH ?= $(HOST_ARCH)
MODE ?= release
STATIC ?= $(if $(filter $(HOST_ARCH),$(ARCH)),0,1)
VERSION := $(shell cat VERSION)

.DEFAULT_GOAL := program
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

# --- mode ----------------------------------------------------------------------------------------
SUFFIX_release :=
SUFFIX_test := -test
SUFFIX_san := -san
SUFFIX_tsan := -tsan
SUFFIX_fuzz := -fuzz
SUFFIX_emulated := -emulated
ifeq ($(filter release test san tsan fuzz emulated,$(MODE)),)
$(error MODE=$(MODE) is not one of: release test san tsan fuzz emulated)
endif

# --- compiler ------------------------------------------------------------------------------------
ifeq ($(origin CC),default)
  ifeq ($(MODE),fuzz)
    CC := $(firstword $(shell command -v clang-14 clang 2>/dev/null) clang)
  else ifneq ($(ARCH),$(HOST_ARCH))
    CC := $(ARCH)-linux-gnu-gcc
  else
    CC := gcc
  endif
endif
AR := $(if $(filter $(HOST_ARCH),$(ARCH)),,$(ARCH)-linux-gnu-)ar
OBJCOPY := $(AR:%ar=%objcopy)

# gcc's own number; __clang__ stays a word where clang is not.
COMPILER := $(shell printf '__GNUC__ __clang__\n' | $(CC) -E -P - 2>/dev/null)
GCC := $(if $(filter __clang__,$(COMPILER)),$(firstword $(COMPILER)))
ifeq ($(COMPILER),)
$(error the compiler "$(CC)" does not run here: make setup installs what is missing, or says what to install)
endif
ifneq ($(filter 1 2 3 4 5 6 7 8 9,$(GCC)),)
$(error $(CC) is gcc $(shell $(CC) -dumpfullversion -dumpversion); whimbrel needs gcc 10 or newer: install one and say CC=gcc-12)
endif
# Warnings are errors with the compiler that the project is developed with; another one knows other warnings.
WERROR ?= $(if $(filter 12,$(GCC)),1,0)

# --- CPU levels: folder -> flags (the features that src/backends/cpu/levels.c asks for, no others). A
# folder of the other family is not built. -----------------------
LEVELS_aarch64 := neon dotprod i8mm bf16
FLAGS_neon :=
FLAGS_dotprod := -march=armv8.2-a+dotprod
FLAGS_i8mm := -march=armv8.2-a+dotprod+i8mm
FLAGS_bf16 := -march=armv8.2-a+dotprod+i8mm+bf16

LEVELS_x86_64 := sse2 avx2 avx512 avx512vnni avx512bf16 amx
FLAGS_sse2 :=
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq $(FLAGS_avx2)
FLAGS_avx512vnni := -mavx512vnni $(FLAGS_avx512)
FLAGS_avx512bf16 := -mavx512bf16 $(FLAGS_avx512vnni)
FLAGS_amx := -mamx-tile -mamx-int8 -mamx-bf16 $(FLAGS_avx512bf16)

ifeq ($(LEVELS_$(ARCH)),)
$(error whimbrel has no CPU levels for "$(ARCH)"; known families: aarch64 x86_64)
endif
# What levels.c asks the compiler to know beside the flags.
KNOWS_avx512bf16 := avx512bf16
KNOWS_amx := amx-bf16
probe_source = int f(void) { return $(if $(KNOWS_$(1)),__builtin_cpu_supports("$(KNOWS_$(1))"),0); }
# Each level includes those below it, so the first that this compiler cannot make ends the list.
LEVELS := $(shell $(foreach l,$(LEVELS_$(ARCH)),echo '$(call probe_source,$(l))' | \
            $(CC) $(FLAGS_$(l)) -x c -S -o /dev/null - 2>/dev/null && echo $(l) &&) :)
LEVELS_LEFT_OUT := $(filter-out $(LEVELS),$(LEVELS_$(ARCH)))
ifneq ($(LEVELS_LEFT_OUT),)
$(info $(CC) cannot make the CPU levels $(LEVELS_LEFT_OUT): left out)
endif
# Sanitizers run where they are built, so levels that this machine lacks are left to the other builds. What threads share
# (claims and barriers, tmpl/*.h) is the same source on all levels, so races are looked for on few of them.
# $(call cpu_lacks,FLAG,LEVELS): the levels, where this machine does not have the flag.
cpu_lacks = $(if $(filter $(HOST_ARCH),$(ARCH)),$(if $(shell grep -m1 -ow $(1) /proc/cpuinfo),,$(2)))
UNWATCHED_san := avx512 $(call cpu_lacks,avx512_bf16,avx512bf16 amx) $(call cpu_lacks,amx_bf16,amx)
UNWATCHED_tsan := avx512 avx512vnni avx512bf16 amx i8mm bf16
LEVELS := $(filter-out $(UNWATCHED_$(MODE)),$(LEVELS))
# A folder with no .c file of its own (templates) is no level.
LEVEL_DIRS := $(sort $(patsubst src/backends/cpu/%/,%,$(dir $(wildcard src/backends/cpu/*/*.c))))
LEVELS_UNKNOWN := $(filter-out $(LEVELS_aarch64) $(LEVELS_x86_64),$(LEVEL_DIRS))
ifneq ($(LEVELS_UNKNOWN),)
$(error src/backends/cpu/$(firstword $(LEVELS_UNKNOWN))/ has no line in the level table of mk/build.mk)
endif
# $(call level,FILE): the level whose folder FILE is in, or nothing.
level = $(filter $(LEVELS),$(firstword $(subst /, ,$(patsubst src/backends/cpu/%,%,$(1)))))

# DIST=1: what archives are made of (tools/make-dist), in a folder of its own.
B := build/$(ARCH)$(SUFFIX_$(MODE))$(if $(DIST),-dist)

TEST_DEFS := -DWHIM_DEBUG
MODE_FLAGS_release := -O2
# Most of the tests' time goes to kernels, which are the program's, and to the law and what compares with it: these are
# optimised (QUICK), the rest compiles in half the time.
MODE_FLAGS_test := -O1 $(TEST_DEFS)
QUICK := $(if $(filter test emulated,$(MODE)),src/ops/ref/% src/tensor/% tests/checkop/% tests/golden/% tests/support/%)
MODE_FLAGS_san := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
                  -fno-sanitize-recover=all $(TEST_DEFS)
MODE_FLAGS_tsan := -O1 -fno-omit-frame-pointer -fsanitize=thread $(TEST_DEFS)
MODE_FLAGS_fuzz := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
                   -fno-sanitize-recover=all $(TEST_DEFS)
MODE_FLAGS_emulated := $(MODE_FLAGS_test)
MODE_LINK_san := -fsanitize=address,undefined
MODE_LINK_tsan := -fsanitize=thread
MODE_LINK_fuzz := -fsanitize=address,undefined
LEVEL_OPT := $(if $(filter release test,$(MODE)),-O3)
# Kernels read no outside bytes, and clang needs half an hour for one of them with the instruments of a fuzzer.
LEVEL_OPT_fuzz := -fno-sanitize=all
# Kernels are most of what the sanitizers build, and nearly all of that is checks of pointers before each access, which the
# addresses' own sanitizer sees when it goes wrong (not where it is only unaligned): without them, and with a trap in place of
# a report, they take the compiler a third of the time; and half of that without a watch over each array on the stack, whose
# indices are the constants of unrolled loops. avx512 has the loops of avx512vnni with another dot product, and is
# left out (UNWATCHED, above).
LEVEL_OPT_san := -fno-sanitize=null,pointer-overflow,object-size,alignment -fsanitize-undefined-trap-on-error \
                 --param asan-stack=0
# An emulator is as slow with the best of loops, and the compiler needs a third of the time for these.
LEVEL_OPT_emulated := -O1
LEVEL_OPT += $(LEVEL_OPT_$(MODE))
# Where each variable lies takes the compiler nearly as long as the kernels themselves: lines only.
LEVEL_OPT += -g1
# The law rounds a product and a sum once. For any x86_64 that is done in software, and takes ten times as long; tests
# run where they are built, so they ask this machine. Bits are the same (tests/unit/base/math).
HAS_FMA := $(if $(filter x86_64-test x86_64-san x86_64-tsan,$(ARCH)-$(MODE)),$(shell grep -m1 -ow fma /proc/cpuinfo))
LAW_FLAGS := $(if $(HAS_FMA),-mfma)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
        -Wundef -Wvla -Wformat=2 -Wpointer-arith -Wwrite-strings -Wno-missing-field-initializers
# clang's idea of these warnings differs; gcc decides.
ifeq ($(MODE),fuzz)
  WARN := -w
else ifneq ($(WERROR),0)
  WARN += -Werror
endif
# The sanitizers' instrumentation makes gcc see impossible paths.
ifneq ($(filter san tsan,$(MODE)),)
  WARN += -Wno-maybe-uninitialized
endif

# Reports of a test need lines only, and 200 test programs with more are 10 GB.
DEBUG_INFO := $(if $(filter release,$(MODE)),-g,-g1)
# Nothing here may change the value of a float: see Numerics in DESIGN.md.
CFLAGS_ALL := -std=gnu11 $(DEBUG_INFO) $(MODE_FLAGS_$(MODE)) -ffp-contract=off -fno-math-errno \
              -fvisibility=hidden -ffunction-sections -fdata-sections -pthread $(WARN) $(CFLAGS)
# One set of objects makes the program and the shared library.
# Archives have the same objects, linked in another way.
PIC := $(if $(DIST),1,$(if $(filter 0,$(STATIC)),1))
ifeq ($(MODE)$(PIC),release1)
  CFLAGS_ALL += -fPIC
endif
# A program with all objects of a sanitizer in it is 50 MB, and takes the linker two seconds: the unit tests share them.
ifneq ($(filter test0 san0 tsan0,$(MODE)$(STATIC)),)
  CFLAGS_ALL += -fPIC -fvisibility=default
  TEST_LIB := $(B)/libwhimtest.so
  TEST_PATH := -Wl,-rpath,$(abspath $(B))
endif
# Kernels are most of a build. They know nothing of debugging, so tests take those that the program has.
ifneq ($(filter release test,$(MODE)),)
  L := build/$(ARCH)-levels$(if $(PIC),,-static)
  LEVEL_CFLAGS := $(filter-out -fPIC -fvisibility=default -g -g1 -O1 -O2 $(TEST_DEFS),$(CFLAGS_ALL)) $(if $(PIC),-fPIC)
else
  L := $(B)
  LEVEL_CFLAGS := $(CFLAGS_ALL)
endif
LEVEL_CFLAGS += $(LEVEL_OPT)
LEVEL_CPPFLAGS := -D_GNU_SOURCE -Isrc -Iinclude $(CPPFLAGS)
CPPFLAGS_ALL := -D_GNU_SOURCE -DWHIM_VERSION='"$(VERSION)"' -Isrc -Iinclude -I$(B)/gen $(CPPFLAGS)
LDFLAGS_ALL := -pthread -Wl,--gc-sections $(MODE_LINK_$(MODE)) $(LDFLAGS)
ifeq ($(STATIC),1)
  LIBS := -l:libjansson.a -l:libpcre2-8.a -l:libutf8proc.a -lm
  EDIT_LIBS := -l:libedit.a -l:libtinfo.a -l:libbsd.a -l:libmd.a
else
  LIBS := -ljansson -lpcre2-8 -lutf8proc -lm
  EDIT_LIBS := -ledit
endif
# Older C libraries have dlopen apart.
LIBS += -ldl
UNIT_LIBS = $(LIBS) -lcmocka

# Whether the compiler finds a header, a library: 1. (Makes differ in what a backslash before the sign is inside a call.)
HASH := \#
header = $(shell echo '$(HASH)include <$(1)>' | $(CC) $(CPPFLAGS) -E -o /dev/null - 2>/dev/null && echo 1)
archive = $(shell [ -e "$$($(CC) -print-file-name=lib$(1).a)" ] && echo 1)
shared = $(shell [ -e "$$($(CC) -print-file-name=lib$(1).so)" ] && echo 1)

# hwloc tells cores from their siblings. Static builds read /sys instead: Debian's archive of hwloc needs a
# libudev that has no static form.
ifeq ($(STATIC),1)
  # An archive for other machines brings its own OpenSSL; libcurl is theirs.
  OPENSSL := $(and $(DIST),$(call header,openssl/ssl.h),$(call archive,ssl))
  HUB := $(and $(OPENSSL),$(call header,curl/curl.h))
  ifeq ($(DIST)/$(HUB),1/)
    $(error an archive for $(ARCH) needs OpenSSL and the headers of curl: tools/setup --for-dist $(ARCH) installs them)
  endif
  ifeq ($(OPENSSL),1)
    CPPFLAGS_ALL += -DWHIM_TLS
    LIBS += -l:libssl.a -l:libcrypto.a -ldl
    HUB_DEFS := $(if $(HUB),-DWHIM_HUB)
  endif
else
  HWLOC := $(and $(call header,hwloc.h),$(call shared,hwloc))
  ifeq ($(HWLOC),1)
    CPPFLAGS_ALL += -DWHIM_HWLOC
    LIBS += -lhwloc
  endif
  PUBLIC_LIBS := $(LIBS) # what the library needs: no server, no downloads
  # TLS of the server. Without OpenSSL, and in static builds, its options are refused by name.
  OPENSSL := $(and $(call header,openssl/ssl.h),$(call shared,ssl))
  ifeq ($(OPENSSL),1)
    CPPFLAGS_ALL += -DWHIM_TLS
    LIBS += -lssl -lcrypto
    # Downloads. libcurl is loaded when it is needed, so only its header counts here; checksums are OpenSSL's.
    CURL := $(call header,curl/curl.h)
    ifeq ($(CURL),1)
      HUB_DEFS := -DWHIM_HUB
    endif
  endif
endif

# The link between hosts is a module of its own, loaded when it is needed. What UCX does is nothing that a sanitizer knows.
ifneq ($(filter release0 test0,$(MODE)$(STATIC)),)
  UCX := $(and $(call header,ucp/api/ucp.h),$(call shared,ucp))
endif
MODULES := $(if $(filter 1,$(UCX)),$(B)/whimbrel-ucx.so)

# --- sources -------------------------------------------------------------------------------------
# Backends that only test builds have lie in tests/.
BACKEND_HOMES := src/backends $(if $(filter-out release,$(MODE)),tests/backends)
BACKENDS ?= $(sort $(foreach h,$(BACKEND_HOMES),$(patsubst $(h)/%/,%,$(dir $(wildcard $(h)/*/*.c)))))

LEVEL_SRC := $(if $(filter cpu,$(BACKENDS)),$(foreach l,$(LEVELS),$(wildcard src/backends/cpu/$(l)/*.c)))
LIB_SRC := $(filter-out src/backends/% src/comm/ucx/%,$(wildcard src/*/*.c src/*/*/*.c)) \
           $(foreach b,$(BACKENDS),$(wildcard $(addsuffix /$(b)/*.c,$(BACKEND_HOMES)))) \
           $(LEVEL_SRC)
PUBLIC_SRC := $(filter-out src/hub/% src/http/% src/server/%,$(LIB_SRC))
APP_SRC := $(wildcard apps/*.c apps/*/*.c)
EXAMPLE_SRC := $(wildcard examples/*.c)
SUPPORT_SRC := $(wildcard tests/support/*.c)
UNIT_SRC := $(wildcard tests/unit/*_test.c tests/unit/*/*_test.c tests/unit/*/*/*_test.c \
                       tests/unit/*/*/*/*_test.c)
SIM_SRC := $(wildcard tests/sim/*.c)
CHECKOP_SRC := $(wildcard tests/checkop/*.c)
GOLDEN_SRC := $(wildcard tests/golden/*.c)
INVARIANCE_SRC := $(wildcard tests/invariance/*.c)
STEPS_SRC := $(wildcard tests/replay/*.c)
TIME_SRC := tests/link/time_hosts.c
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
REPLAY_SRC := tests/fuzz/replay.c
# The interpreter of templates and the readers of JSON, counted: each block of their code calls tests/support/work.c, so that
# tests see the work that was done beside that which was paid for. Globals that are there twice are no fault then.
COUNTED_SRC := $(wildcard src/jinja/*.c) $(addprefix src/base/,utf8.c str.c json_read.c)
COUNTED := $(COUNTED_SRC:%.c=$(B)/counted/%.o)

obj = $(foreach s,$(1),$(if $(call level,$(s)),$(L),$(B))/obj/$(s:.c=.o))
LIB := $(B)/libwhim.a
PROGRAM := $(B)/whimbrel
# What `make install` puts beside the program. The first number of the version is that of the ABI.
SHARED := $(B)/libwhimbrel.so.$(VERSION)
SONAME := libwhimbrel.so.$(firstword $(subst ., ,$(VERSION)))
ARCHIVE := $(B)/libwhimbrel.a
EXAMPLES := $(EXAMPLE_SRC:%.c=$(B)/%)
UNIT := $(UNIT_SRC:%.c=$(B)/%)
# Those of the folders that know the CPU: what an emulator of another family can say something new about.
CPU_FOLDERS := base comm tensor device ops backends layers weights
UNIT_CPU := $(foreach f,$(CPU_FOLDERS),$(filter $(B)/tests/unit/$(f)/%,$(UNIT)))
# Those in which threads meet, around the step loop and before it: answers held to grammars and proposals are there one by
# one, so both at once are left out.
UNIT_THREADS := $(filter-out %/service_draft_held_test,$(filter $(B)/tests/unit/engine/service_% $(B)/tests/unit/comm/% $(B)/tests/unit/library/% $(addprefix $(B)/tests/unit/runner/,exec_test follow_test page_store_test watched_ranks_test) \
    $(B)/tests/unit/ops/comm_ops_test $(addprefix $(B)/tests/unit/backends/cpu/,queue_test stream_test workers_test claim_test) \
    $(B)/tests/unit/http/% $(addprefix $(B)/tests/unit/,server/server_test server/answer/answer_test \
        kv/disk_tier_test base/thread_test),$(UNIT)))
SIM := $(if $(SIM_SRC),$(B)/sim_test)
CHECKOP := $(if $(CHECKOP_SRC),$(B)/checkop)
GOLDEN := $(if $(GOLDEN_SRC),$(B)/golden_test)
INVARIANCE := $(if $(INVARIANCE_SRC),$(B)/invariance_test)
STEPS := $(if $(STEPS_SRC),$(B)/replay_steps)
TIME_HOSTS := $(B)/time_hosts
# A GPU that is not there: kernels compiled for this CPU, as GPUs of two capabilities have them, behind a driver of the tests'
# own, and the tests that run on it: their images name nothing but the capabilities.
GPU := $(B)/emulated_gpu
GPU_SRC := $(wildcard tests/emulated_gpu/*.c)
HAS_CXX := $(shell echo 'int x;' | $(CC) -x c++ -std=gnu++17 -fsyntax-only - 2>/dev/null && echo 1)
GPU_TESTS := $(if $(filter test0,$(MODE)$(STATIC)),$(if $(HAS_CXX),$(addprefix $(GPU)/,libcuda.so.1 checkop golden_test)))
REPLAY := $(B)/replay
FUZZERS := $(FUZZ_SRC:%.c=$(B)/%)

.PHONY: program library public-library examples tests unit unit-cpu unit-threads sim checkop golden invariance steps gpu time-hosts replay fuzzers bundle FORCE
program: $(if $(APP_SRC),$(PROGRAM),$(LIB)) $(MODULES)
library: $(LIB)
public-library: $(if $(filter 0,$(STATIC)),$(SHARED) $(ARCHIVE) $(B)/whimbrel.pc)
examples: $(EXAMPLES)
unit: $(UNIT) $(if $(filter 1,$(STATIC)),bundle)
unit-cpu: $(UNIT_CPU) $(if $(filter 1,$(STATIC)),bundle)
unit-threads: $(UNIT_THREADS)
sim: $(SIM)
checkop: $(CHECKOP)
golden: $(GOLDEN)
invariance: $(INVARIANCE)
steps: $(STEPS)
gpu: $(GPU_TESTS)
time-hosts: $(TIME_HOSTS)
replay: $(REPLAY)
fuzzers: $(FUZZERS)
tests: unit sim checkop golden invariance steps
program library public-library examples unit unit-cpu unit-threads sim checkop golden invariance steps gpu replay fuzzers tests:
	@:

# --- rules ---------------------------------------------------------------------------------------
Q := $(if $(V),,@)
comma := ,
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2))
# $(call keep,TEXT): write TEXT into the target only if it changes, so that mtimes mean something.
# Two configurations may write one target at once, so the new text has a name of its own.
keep = @mkdir -p $(@D); printf '%s\n' $(1) > $@.$$$$.new; \
       if cmp -s $@.$$$$.new $@; then rm $@.$$$$.new; else mv $@.$$$$.new $@; fi

# A change of compiler, flags or file list rebuilds what it touches.
$(B)/stamp/cc: FORCE
	@printf '#include <%s>\n' jansson.h utf8proc.h histedit.h pcre2.h | \
	    $(CC) $(CPPFLAGS) -DPCRE2_CODE_UNIT_WIDTH=8 -E -o /dev/null - 2>/dev/null || \
	    { echo "$(CC) lacks the headers of jansson, pcre2, utf8proc or libedit: run tools/setup, which says" \
	           "what is missing" >&2; exit 1; }
	$(call keep,$(call quote,$(CC) $(CPPFLAGS_ALL) $(HUB_DEFS) $(CFLAGS_ALL) $(LAW_FLAGS)))
$(L)/stamp/levels: FORCE
	$(call keep,$(call quote,$(CC) $(LEVEL_CPPFLAGS) $(LEVEL_CFLAGS) $(foreach l,$(LEVELS),$(FLAGS_$(l)))))
$(B)/stamp/ld: FORCE
	$(call keep,$(call quote,$(LDFLAGS_ALL) $(EDIT_LIBS) $(LIBS)))
$(B)/stamp/files: FORCE
	$(call keep,$(LIB_SRC) $(APP_SRC) $(SUPPORT_SRC) $(SIM_SRC) $(CHECKOP_SRC) $(GOLDEN_SRC) \
	    $(INVARIANCE_SRC) $(STEPS_SRC))
quote = '$(subst ','\'',$(1))'

# The registries: X(name) for each model definition and each backend folder.
$(B)/gen/models.inc: FORCE
	$(call keep,$(shell sed -n 's/^const whim_model_def whim_model_\([a-z0-9_]*\) *=.*/"X(\1)"/p' \
	    $(wildcard src/models/*.c) /dev/null))
$(B)/gen/backends.inc: FORCE
	$(call keep,$(patsubst %,"X(%)",$(BACKENDS)))
$(B)/gen/fuzz_targets.inc: FORCE
	$(call keep,$(patsubst tests/fuzz/fuzz_%.c,"X(%)",$(FUZZ_SRC)))
# The levels of this build, and those that it lacks.
$(B)/gen/levels.inc: FORCE
	$(call keep,$(foreach l,$(LEVELS),'#define WHIM_HAS_$(l)') '#define WHIM_LEVELS_LEFT_OUT "$(LEVELS_LEFT_OUT)"')
# The commit, for `/version`: a file of its own, so that only its reader is built anew.
$(B)/gen/commit.inc: FORCE
	$(call keep,'#define WHIM_COMMIT "$(shell [ -e .git ] && git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)"')
# The API's description, as the bytes of an array.
$(B)/gen/openapi.json: src/server/openapi.txt tools/openapi.awk
	@mkdir -p $(@D)
	@awk -f tools/openapi.awk $< > $@
$(B)/gen/openapi.inc: $(B)/gen/openapi.json
	@od -An -v -tu1 $< | sed 's/  *\([0-9][0-9]*\)/\1,/g' > $@
# The text that quantize compares models on, likewise.
$(B)/gen/report_text.inc: tools/golden/waders.txt
	@mkdir -p $(@D)
	@od -An -v -td1 $< | sed 's/  *\(-*[0-9][0-9]*\)/\1,/g' > $@
# The chat page: the files of web/ and the libraries that the system has, under names that hold their hash.
PAGE_LIBS := $(shell tools/embed-page --libraries)
$(B)/stamp/page: FORCE
	$(call keep,$(sort $(wildcard web/*)) $(PAGE_LIBS))
$(B)/gen/page.inc: tools/embed-page $(wildcard web/*) $(PAGE_LIBS) $(B)/stamp/page
	$(call say,PAGE,$@)
	$(Q)tools/embed-page $(@D)
# Device code, compiled by NVRTC from its wheel (tools/setup --kernels fetches it): an image for each kind of GPU, 20 s of a
# core each, shared by all configurations. With CUDA=0, or without the wheel, there are none, and the program says so. Where
# there is no GPU and nobody asked for them (CUDA=1) one kind is enough, to see that they compile.
KERNELS := build/kernels
KERNEL_SRC := src/backends/cuda/kernels/kernels.cu
KERNEL_FLAGS := -std=c++17 -default-device --fmad=false -Isrc -I$(dir $(KERNEL_SRC)) -I$(dir $(KERNEL_SRC))libc
CUDA ?= $(if $(wildcard /dev/nvidiactl /dev/dxg),1)
GPUS ?= $(if $(filter 1,$(CUDA)),sm_80 sm_86 sm_89 sm_90a compute_90,sm_90a)
NVRTC := $(if $(filter 0,$(CUDA)),,$(firstword $(wildcard build/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.*)))
KERNEL_IMAGES := $(if $(NVRTC),$(GPUS:%=$(KERNELS)/%.image))
HOST_CC := $(if $(filter $(HOST_ARCH),$(ARCH)),$(CC),gcc)
$(KERNELS)/compile: tools/kernels/compile.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(HOST_CC) -std=gnu11 -O1 -o $@.$$$$ $< -ldl && mv $@.$$$$ $@
$(KERNELS)/%.image: $(KERNEL_SRC) $(KERNELS)/compile $(wildcard $(addprefix $(dir $(KERNEL_SRC)),*.cuh */*.cuh libc/*.h)) \
                    $(wildcard src/backends/cuda/launch_args.h src/ops/args/*.h src/tensor/*.[hc] src/tensor/*.def src/base/math/*)
	$(call say,NVRTC,$@)
	$(Q)$(KERNELS)/compile $(NVRTC) $* $@.$$$$ $< $(KERNEL_FLAGS) && mv $@.$$$$ $@
$(KERNELS)/list: FORCE
	$(call keep,"$(NVRTC) $(KERNEL_IMAGES)")
$(KERNELS)/images: $(KERNEL_IMAGES) $(KERNELS)/list
	@{ cat $(KERNEL_IMAGES) /dev/null; head -c 16 /dev/zero; } > $@.$$$$ && mv $@.$$$$ $@
$(B)/gen/kernel_images.inc: FORCE
	$(call keep,'#define WHIM_KERNEL_IMAGES "$(KERNELS)/images"')
$(B)/obj/src/backends/cuda/images.o: $(KERNELS)/images
GEN := $(B)/gen/kernel_images.inc $(B)/gen/models.inc $(B)/gen/backends.inc $(B)/gen/fuzz_targets.inc $(B)/gen/levels.inc $(B)/gen/commit.inc \
       $(B)/gen/openapi.inc $(B)/gen/report_text.inc $(B)/gen/page.inc

$(B)/obj/%.o: %.c $(B)/stamp/cc | $(GEN)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(if $(filter tests/%,$<),-Itests) $(if $(filter apps/% tests/fuzz/% tests/unit/apps/%,$<),-Iapps) $(if $(filter src/hub/%,$<),$(HUB_DEFS)) $(CFLAGS_ALL) \
	    $(if $(filter $(QUICK),$<),$(if $(filter src/%,$<),-O3,-O2)) $(if $(filter src/ops/ref/%,$<),$(LAW_FLAGS)) -MMD -MP -c -o $@ $<
$(call obj,$(LEVEL_SRC)): $(L)/obj/%.o: %.c $(L)/stamp/levels
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LEVEL_CPPFLAGS) $(LEVEL_CFLAGS) $(FLAGS_$(call level,$<)) -MMD -MP -c -o $@ $<

$(COUNTED): $(B)/counted/%.o: %.c tests/support/work.h $(B)/stamp/cc | $(GEN)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fsanitize-coverage=trace-pc $(if $(filter san,$(MODE)),--param asan-globals=0) -include tests/support/work.h -MMD -MP -c -o $@ $<
	$(Q)$(OBJCOPY) --redefine-sym __sanitizer_cov_trace_pc=whim_work_block $@

$(LIB): $(call obj,$(LIB_SRC)) $(B)/stamp/files
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

# Nothing but the functions of the public header can be seen from outside.
$(SHARED): $(call obj,$(PUBLIC_SRC)) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs -o $@ $(filter %.o,$^) $(PUBLIC_LIBS)
$(ARCHIVE): $(call obj,$(PUBLIC_SRC)) $(B)/stamp/files
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(CC) -r -nostdlib -o $(B)/libwhimbrel.o $(filter %.o,$^)
	$(Q)$(OBJCOPY) --localize-hidden $(B)/libwhimbrel.o
	$(Q)$(AR) rcs $@ $(B)/libwhimbrel.o
	@rm $(B)/libwhimbrel.o
$(B)/whimbrel.pc: FORCE
	$(call keep,'prefix=@PREFIX@' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: whimbrel' \
	    'Description: open-weight language models inside a program' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
	    'Libs: -L$${libdir} -lwhimbrel' 'Libs.private: $(strip $(PUBLIC_LIBS)) -pthread')

$(B)/whimbrel-ucx.so: src/comm/ucx/ucx.c $(wildcard src/comm/*.h src/base/err.*) $(B)/stamp/cc
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fPIC -shared -Wl,-z,defs -o $@ $< -lucp -lucs

link = $(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(1) -o $@ $(filter %.o,$^) $(filter %.a %.so,$^) $(2)

$(PROGRAM): $(call obj,$(APP_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(EDIT_LIBS) $(LIBS))
$(EXAMPLES): $(B)/%: $(B)/obj/%.o $(LIB) $(B)/stamp/ld
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(SIM): $(call obj,$(SIM_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(CHECKOP): $(call obj,$(CHECKOP_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(GOLDEN): $(call obj,$(GOLDEN_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(INVARIANCE): $(call obj,$(INVARIANCE_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(STEPS): $(call obj,$(STEPS_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
# It is never sanitized: fibers have stacks of their own. Its kernels have no variables but those in shared memory.
GPU_CPU := $(if $(HAS_FMA),$(if $(shell grep -m1 -ow avx2 /proc/cpuinfo),-mfma -mavx2))
GPU_FLAGS := -O2 -g1 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno $(GPU_CPU) -Isrc -Itests -D_GNU_SOURCE
GPU_OBJ := $(GPU_SRC:tests/emulated_gpu/%.c=$(GPU)/%.o)
$(GPU)/stamp: FORCE
	$(call keep,$(call quote,$(CC) $(GPU_FLAGS) $(WARN)))
$(GPU_OBJ): $(GPU)/%.o: tests/emulated_gpu/%.c $(GPU)/stamp
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 $(GPU_FLAGS) -O3 $(WARN) -MMD -MP -c -o $@ $<
$(GPU)/kernels_80.o: GPU_DEFS := -D__CUDA_ARCH__=800 -DGPU_CAPABILITY=80
$(GPU)/kernels_90.o: GPU_DEFS := -D__CUDA_ARCH__=900 -D__CUDA_ARCH_FEAT_SM90_ALL -DGPU_CAPABILITY=90
$(GPU)/kernels_80.o $(GPU)/kernels_90.o: $(GPU)/kernels_%.o: tests/emulated_gpu/kernels.cc $(GPU)/stamp
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu++17 -w -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing $(GPU_FLAGS) \
	    -I$(dir $(KERNEL_SRC)) $(GPU_DEFS) -MMD -MP -c -o $@ $<
	$(Q)$(OBJCOPY) --set-section-flags .bss=alloc,load,contents,data --rename-section .bss=gpu_shared_$* $@
$(GPU)/libcuda.so.1: $(GPU_OBJ) $(GPU)/kernels_80.o $(GPU)/kernels_90.o
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-z,defs -Wl,-soname,$(@F) -o $@ $^ -lm -pthread
$(GPU)/images:
	@mkdir -p $(@D)
	@printf '\240\000\000\000\000\000\000\000\020\000\000\000\000\000\000\000emulated GPU 8.0\264\000\000\000\000\000\000\000\020\000\000\000\000\000\000\000emulated GPU 9.0' > $@
	@head -c 16 /dev/zero >> $@
$(GPU)/gen/kernel_images.inc: FORCE
	$(call keep,'#define WHIM_KERNEL_IMAGES "$(GPU)/images"')
$(GPU)/images.o: src/backends/cuda/images.c $(GPU)/images $(GPU)/gen/kernel_images.inc $(B)/stamp/cc
	$(call say,CC,$@)
	$(Q)$(CC) -I$(GPU)/gen $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(GPU)/checkop: $(call obj,$(CHECKOP_SRC))
$(GPU)/golden_test: $(call obj,$(GOLDEN_SRC))
$(addprefix $(GPU)/,checkop golden_test): $(GPU)/images.o $(call obj,$(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,-Wl$(comma)-rpath$(comma)$(abspath $(GPU)),$(LIBS))
-include $(GPU_OBJ:.o=.d) $(GPU)/kernels_80.d $(GPU)/kernels_90.d $(GPU)/images.d
$(TIME_HOSTS): $(call obj,$(TIME_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(TEST_LIB): $(LIB) $(B)/stamp/ld
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ -Wl,--whole-archive $(LIB) -Wl,--no-whole-archive $(UNIT_LIBS)
$(UNIT): $(B)/%: $(B)/obj/%.o $(call obj,$(SUPPORT_SRC)) $(or $(TEST_LIB),$(LIB)) $(B)/stamp/ld
	$(call say,LD,$@)
	$(call link,$(TEST_PATH),$(UNIT_LIBS))
# What the program has for itself is tested with its own objects.
$(filter $(B)/tests/unit/apps/%,$(UNIT)): $(call obj,$(wildcard apps/options/*.c) apps/bench/dummy_gguf.c apps/chat/prose.c apps/chat/flow.c apps/kv/difference.c apps/local/catalogue.c apps/local/fit.c apps/local/table.c apps/serve/kv_keep.c)
$(filter $(B)/tests/unit/comm/ucx_%,$(UNIT)): | $(MODULES)
# These count the work of templates: counted objects come before the library, which has the same functions.
$(B)/tests/unit/jinja/cost_test $(B)/tests/fuzz/fuzz_template_cost $(REPLAY): $(COUNTED)
# All targets in one program: each has a name of its own there.
ifneq ($(MODE),fuzz)
$(call obj,$(FUZZ_SRC)): private CPPFLAGS_ALL += -DLLVMFuzzerTestOneInput=$(basename $(@F))
endif
$(REPLAY): $(call obj,$(FUZZ_SRC) $(REPLAY_SRC) $(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld $(B)/stamp/files
	$(call say,LD,$@)
	$(call link,,$(LIBS))
$(FUZZERS): $(B)/%: $(B)/obj/%.o $(call obj,$(SUPPORT_SRC)) $(LIB) $(B)/stamp/ld
	$(call say,LD,$@)
	$(call link,-fsanitize=fuzzer,$(LIBS))

# The libraries and the loader that the unit tests need, so that a copy of the build folder runs
# where nothing is installed: lib/ld.so --library-path lib PROGRAM.
LOADER_x86_64 := ld-linux-x86-64.so.2
LOADER_aarch64 := ld-linux-aarch64.so.1
bundle: $(B)/lib/ld.so
$(B)/lib/ld.so: $(B)/stamp/cc
	@mkdir -p $(@D)
	@for f in libc.so.6 libm.so.6 libcmocka.so.0; do cp -fL "$$($(CC) -print-file-name=$$f)" $(@D)/; done
	@cp -fL "$$($(CC) -print-file-name=$(LOADER_$(ARCH)))" $@

ALL_SRC := $(LIB_SRC) $(APP_SRC) $(EXAMPLE_SRC) $(SUPPORT_SRC) $(UNIT_SRC) $(SIM_SRC) $(CHECKOP_SRC) $(GOLDEN_SRC) \
           $(INVARIANCE_SRC) $(STEPS_SRC) $(TIME_SRC) $(FUZZ_SRC) $(REPLAY_SRC)
-include $(patsubst %.o,%.d,$(call obj,$(ALL_SRC)) $(COUNTED))
