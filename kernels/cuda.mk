# The CUDA backend with the real compiler: `make cuda`. NVCC= names another one, CUDA= another toolkit.
# Machine code for each architecture, PTX for newer ones. What ptxas says of each kernel is kept
# beside its object: tests/cuda-emu/test_nvcc.sh compares it with the table in the repository.

CUDA ?= /usr/local/cuda
NVCC ?= $(firstword $(wildcard $(CUDA)/bin/nvcc) nvcc)
# Where nvcc is, `make` builds the worker for GPUs too; `make NVCC=` leaves it out.
all: $(if $(wildcard $(NVCC)),$(BUILD)/stepd-worker-cuda)
CUDA_ARCHS := 80 86 89 90
CUDA_BUILD ?= $(BUILD)/cuda
CUDA_OBJ := $(patsubst %,$(CUDA_BUILD)/%.o,$(sort $(wildcard kernels/*.cu)))
NVCC_FLAGS := -std=c++17 -O3 -g -I. -MD -MP -Werror all-warnings -Xptxas -v \
	-Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers \
	$(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
CUDA_LIBS := -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lcublas -lcudart

$(CUDA_BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call SAY,nvcc)$(NVCC) $(NVCC_FLAGS) -c -o $@ $< >$@.ptxas 2>&1 || { cat $@.ptxas; rm -f $@; exit 1; }
$(BUILD)/cuda/libkernels.a: $(CUDA_OBJ) $(addprefix $(BUILD)/kernels/,compute.o dequant.o)
# The ops' tests on a real device.
$(patsubst %,$(BUILD)/cuda/%,$(EMU_TESTS)): $(BUILD)/cuda/%: $(EMU_BUILD)/fast/tests/unit/%.c.o $(BUILD)/cuda/libkernels.a
	@mkdir -p $(@D)
	$(call SAY,link)$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(OPENMP_LIB) -lstdc++ -lm

# Whether its instructions are those of the manual.
$(patsubst %,$(BUILD)/cuda/%,$(EMU_THREADS)): $(BUILD)/cuda/test_%: $(CUDA_BUILD)/tests/cuda-emu/%.cu.o
	@mkdir -p $(@D)
	$(call SAY,link)$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) -lstdc++ -lm

# The worker with these ops, the same in everything else; a name for the driver to find: sandbox_gpu.c.
$(BUILD)/stepd-worker-cuda: $(BUILD)/worker/main.o $(BUILD)/libworker.a $(BUILD)/cuda/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) -Wl,--export-dynamic-symbol=pthread_setname_np $^ $(filter-out -ldnnl,$(WORKER_LIBS)) $(CUDA_LIBS) -lstdc++

# What make check-gpu runs.
$(BUILD)/cuda/golden_models: $(BUILD)/tests/golden/golden_models.o $(BUILD)/libworker.a $(BUILD)/cuda/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(filter-out -ldnnl,$(WORKER_LIBS)) $(CUDA_LIBS) -lstdc++
# Needs a folder of the model's size, and is of the worker: loading, planning and stepping are its.
$(BUILD)/cuda/bench_step: $(BENCH_STEP_OBJ) $(BUILD)/libworker.a \
		$(BUILD)/cuda/libkernels.a $(BUILD)/libipc.a
	@mkdir -p $(@D)
	$(call SAY,link)$(LINK) $^ $(filter-out -ldnnl,$(WORKER_LIBS)) $(CUDA_LIBS) -lstdc++
$(BUILD)/cuda/bench_ops: $(EMU_BUILD)/fast/tests/bench/bench_ops.c.o $(BUILD)/cuda/libkernels.a
	@mkdir -p $(@D)
	$(call SAY,link)$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(OPENMP_LIB) -lstdc++ -lm
$(BUILD)/cuda/stepd-worker: $(BUILD)/stepd-worker-cuda
	@mkdir -p $(@D)
	@ln -f $< $@

.PHONY: cuda
cuda: $(BUILD)/stepd-worker-cuda $(addprefix $(BUILD)/cuda/,libkernels.a golden_models bench_ops bench_step stepd-worker $(EMU_THREADS) $(EMU_TESTS))

# What it runs; stepctl and stepd are the product's own.
CHECK_GPU := cuda $(BUILD)/stepctl $(BUILD)/stepd $(BUILD)/tests/refused
# PART=, and more: tests/check_gpu.sh
.PHONY: check-gpu
check-gpu: $(BUILD)/stepd-worker $(CHECK_GPU)
	@tests/check_gpu.sh $(BUILD) $(BUILD)/cuda

# The same for a machine with a GPU on which nothing can be built: $(BUILD)/check-gpu/ and its tar.gz, with all that
# the programs need but glibc, the driver and cuBLAS. They run on any x86-64 and look beside themselves for libraries.
ifdef BUNDLED
LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib:$$ORIGIN/../../lib'
# libevent within: it asks for a newer glibc than all the others do.
SUPERVISOR_LIBS := $(patsubst -levent%,-l:libevent%.a,$(SUPERVISOR_LIBS))
$(BUILD)/stepd: $(BUILD)/tests/older_glibc.o
endif
.PHONY: check-gpu-bundle check-gpu-programs
check-gpu-programs: $(CHECK_GPU)
check-gpu-bundle:
	@$(MAKE) --no-print-directory $(JOBS) BUILD=$(BUILD)/bundled CUDA_BUILD=$(BUILD)/cuda MARCH= BUNDLED=1 check-gpu-programs
	@tests/gpu_bundle.sh $(BUILD)/bundled $(BUILD)/bundled/cuda $(BUILD)/check-gpu
