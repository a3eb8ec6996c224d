# CUDA without a GPU: the .cu files of kernels/ compiled by clang against the emulation of this folder.
# Four builds of one source, as each sees what the others cannot: fast (wrong numbers, barriers,
# launches), asan (bounds), race (races, unwritten memory), gcc (addresses that are not aligned: clang
# does not look at copies of whole structs). Nothing of it is built by `make`.

EMU_CXX ?= clang++
EMU_GXX ?= g++
EMU_MODES := fast asan race gcc
EMU_BUILD := $(BUILD)/cuda-emu
EMU_FLAGS := -std=gnu++17 -g -I. -Itests/cuda-emu/include -MMD -MP -Wall -Wextra -Wno-unknown-pragmas -Wno-missing-field-initializers -fno-strict-aliasing $(if $(CI),-Werror)
EMU_MATHS := -march=x86-64-v3 -ffp-contract=fast
# Not enum: to C, whose callers these ops have, any int may be one; it is checked.
EMU_ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=float-divide-by-zero,enum \
	-ftrivial-auto-var-init=pattern -fno-omit-frame-pointer
EMU_fast := -O2 $(EMU_MATHS)
EMU_asan := -O1 $(EMU_MATHS) $(EMU_ASAN)
EMU_race := -O1 -fno-vectorize -fno-slp-vectorize -fsanitize=thread -mllvm -tsan-instrument-func-entry-exit=0
EMU_link_asan := $(EMU_ASAN)
EMU_UBSAN := -fsanitize=undefined -fno-sanitize-recover=undefined -fno-sanitize=float-divide-by-zero,enum
EMU_gcc := -O1 $(EMU_MATHS) $(EMU_UBSAN)
EMU_link_gcc := $(EMU_UBSAN)
emu_cxx = $(if $(filter gcc,$(1)),$(EMU_GXX),$(EMU_CXX))
# The emulation itself: not instrumented in the race build, whose functions it provides.
EMU_self_fast := $(EMU_fast)
EMU_self_asan := $(EMU_asan)
EMU_self_race := -O2 -march=x86-64-v3
EMU_self_gcc := $(EMU_gcc)
EMU_SRC := $(filter-out tests/cuda-emu/race.cpp,$(wildcard tests/cuda-emu/*.cpp))
EMU_KERNELS := $(sort $(wildcard kernels/*.cu))
EMU_PLANTED := $(sort $(wildcard tests/cuda-emu/planted/*.cu))
# Tests of what threads compute, without ops; on a real device too.
EMU_THREADS := test_instructions test_arithmetic
EMU_TESTS := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_op_*.c))

emu_objects = $(patsubst %,$(EMU_BUILD)/$(1)/%.o,$(EMU_SRC) $(if $(filter race,$(1)),tests/cuda-emu/race.cpp))

define emu_rules
$$(EMU_BUILD)/$(1)/%.cpp.o: %.cpp
	@mkdir -p $$(@D)
	$$(call SAY,emu)$$(call emu_cxx,$(1)) $$(EMU_FLAGS) $$(EMU_self_$(1)) -c -o $$@ $$<
# clang copies structs by memcpy, which the race checker has to see too
$$(EMU_BUILD)/$(1)/%.cu.o: %.cu
	@mkdir -p $$(@D)
	$$(call SAY,emu)$$(call emu_cxx,$(1)) $$(EMU_FLAGS) $$(EMU_$(1)) -x c++ -c -o $$@ $$<
	$(if $(filter race,$(1)),@objcopy --redefine-sym memcpy=__tsan_memcpy \
		--redefine-sym memset=__tsan_memset --redefine-sym memmove=__tsan_memmove $$@)
$$(EMU_BUILD)/$(1)/planted: $$(patsubst %,$$(EMU_BUILD)/$(1)/%.o,$$(EMU_PLANTED)) $$(call emu_objects,$(1))
	$$(call SAY,link)$$(call emu_cxx,$(1)) $$(EMU_link_$(1)) -o $$@ $$^ -lm
$$(patsubst %,$$(EMU_BUILD)/$(1)/%,$$(EMU_THREADS)): $$(EMU_BUILD)/$(1)/test_%: $$(EMU_BUILD)/$(1)/tests/cuda-emu/%.cu.o \
		$$(call emu_objects,$(1))
	$$(call SAY,link)$$(call emu_cxx,$(1)) $$(EMU_link_$(1)) -o $$@ $$^ -lm
$$(EMU_BUILD)/$(1)/libkernels.a: $$(patsubst %,$$(EMU_BUILD)/$(1)/%.o,$$(EMU_KERNELS)) $$(call emu_objects,$(1)) \
		$$(EMU_BUILD)/$(1)/kernels/dequant.c.o
# The very tests of the CPU's ops, linked with the others.
$$(EMU_BUILD)/$(1)/%.c.o: %.c
	@mkdir -p $$(@D)
	$$(call SAY,cc)$$(CC) $$(CFLAGS_ALL) -Itests/cuda-emu/include -DRIG_CUDA=1 -c -o $$@ $$<
$$(patsubst %,$$(EMU_BUILD)/$(1)/%,$$(EMU_TESTS)): $$(EMU_BUILD)/$(1)/%: $$(EMU_BUILD)/$(1)/tests/unit/%.c.o \
		$$(EMU_BUILD)/$(1)/kernels/compute.c.o $$(EMU_BUILD)/$(1)/libkernels.a
	$$(call SAY,link)$$(call emu_cxx,$(1)) $$(EMU_link_$(1)) -o $$@ $$^ -lm
$$(EMU_BUILD)/$(1)/huge: $$(EMU_BUILD)/$(1)/tests/cuda-emu/huge.c.o $$(EMU_BUILD)/$(1)/libkernels.a
	$$(call SAY,link)$$(call emu_cxx,$(1)) $$(EMU_link_$(1)) -o $$@ $$^ -lm
.PHONY: cuda-emu-$(1)
cuda-emu-$(1): $$(EMU_BUILD)/$(1)/planted $$(patsubst %,$$(EMU_BUILD)/$(1)/%,$$(EMU_THREADS) $$(EMU_TESTS))
endef
$(foreach mode,$(EMU_MODES),$(eval $(call emu_rules,$(mode))))

.PHONY: cuda-emu
cuda-emu: $(addprefix cuda-emu-,$(EMU_MODES)) $(EMU_BUILD)/fast/huge $(EMU_BUILD)/gcc/huge
.PRECIOUS: $(EMU_BUILD)/%.o

# The worker's model and training over the emulated kernels: the golden cases again.
$(EMU_BUILD)/fast/golden_models: $(BUILD)/tests/golden/golden_models.o $(BUILD)/libworker.a \
		$(EMU_BUILD)/fast/kernels/compute.c.o $(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ $(filter-out -ldnnl,$(WORKER_LIBS))
# Tests of the worker's training, over these kernels: the CPU's own, and what only the emulation sees.
EMU_TRAIN := test_load test_memory_plan test_trainer test_trainer_evaluate test_trainer_stale steps graphs graphs_memory
$(addprefix $(EMU_BUILD)/fast/,$(filter-out test_%,$(EMU_TRAIN))): $(EMU_BUILD)/fast/%: $(EMU_BUILD)/fast/tests/cuda-emu/%.c.o
$(addprefix $(EMU_BUILD)/fast/,$(filter test_%,$(EMU_TRAIN))): $(EMU_BUILD)/fast/%: $(EMU_BUILD)/fast/tests/unit/%.c.o
$(addprefix $(EMU_BUILD)/fast/,$(EMU_TRAIN)): $(BUILD)/libworker.a $(EMU_BUILD)/fast/kernels/compute.c.o \
		$(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(EMU_CXX) -o $@ $(filter %.c.o,$^) $(filter %.a,$^) $(filter-out -ldnnl,$(WORKER_LIBS))
cuda-emu: $(addprefix $(EMU_BUILD)/fast/,$(EMU_TRAIN))
# And the worker itself, beside a stepd that starts it: a build folder for the tests of tests/http.
$(EMU_BUILD)/served/stepd-worker: $(BUILD)/worker/main.o $(BUILD)/libworker.a $(EMU_BUILD)/fast/kernels/compute.c.o \
		$(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(EMU_CXX) -o $@ $^ $(filter-out -ldnnl,$(WORKER_LIBS))
$(EMU_BUILD)/served/stepd: $(BUILD)/stepd
	@mkdir -p $(@D)
	@ln -f $< $@
$(EMU_BUILD)/fast/bench_ops: $(EMU_BUILD)/fast/tests/bench/bench_ops.c.o $(EMU_BUILD)/fast/libkernels.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ -lm
$(EMU_BUILD)/fast/bench_step: $(BENCH_STEP_OBJ) $(BUILD)/libworker.a \
		$(EMU_BUILD)/fast/kernels/compute.c.o $(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ $(filter-out -ldnnl,$(WORKER_LIBS))
cuda-emu: $(EMU_BUILD)/fast/golden_models $(EMU_BUILD)/fast/bench_ops $(EMU_BUILD)/fast/bench_step $(EMU_BUILD)/served/stepd-worker $(EMU_BUILD)/served/stepd
# What every op gives in the order of EMU_SEED.
$(EMU_BUILD)/fast/order: $(EMU_BUILD)/fast/tests/cuda-emu/order.c.o $(EMU_BUILD)/fast/libkernels.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ -lm
cuda-emu: $(EMU_BUILD)/fast/order
# The launches of a step, counted.
$(EMU_BUILD)/fast/launches: $(EMU_BUILD)/fast/tests/cuda-emu/launches.c.o $(ROOFLINE_OBJ) $(BUILD)/libworker.a $(EMU_BUILD)/fast/kernels/compute.c.o \
		$(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ $(filter-out -ldnnl,$(WORKER_LIBS))
cuda-emu: $(EMU_BUILD)/fast/launches
# A trainer whose CUDA calls fail.
EMU_FAILING := $(patsubst %,$(EMU_BUILD)/fast/%.o,$(wildcard tests/cuda-emu/failing*.c))
$(EMU_BUILD)/fast/failing: $(EMU_FAILING) $(BUILD)/libworker.a $(EMU_BUILD)/fast/kernels/compute.c.o \
		$(EMU_BUILD)/fast/libkernels.a $(BUILD)/libipc.a
	$(call SAY,link)$(EMU_CXX) -o $@ $^ $(filter-out -ldnnl,$(WORKER_LIBS))
.PHONY: cuda-emu-fail
cuda-emu-fail: $(EMU_BUILD)/fast/failing $(EMU_BUILD)/served/stepd-worker
cuda-emu: cuda-emu-fail
