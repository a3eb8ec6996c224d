/*
 * The test of the emulation itself: `planted NAME` runs one kernel with its bug and exits 0 if its
 * output is right, 1 if it is wrong, else as the checker that stopped it. `planted right` runs all
 * of them without their bugs.
 */
#include "planted.h"

static const struct planted *const tables[] = {
    planted_memory, planted_order, planted_ptx, planted_host, planted_graphs};

/* 0: out[i] = i for all. */
static int
run(const struct planted *it, bool bug)
{
	float out[N], in[4 * N];
	struct plan p = {.bug = bug};
	float *device_in;
	cudaError_t error;
	int wrong = 0;

	for (int j = 0; j < 4 * N; j++)
		in[j] = (float)j;
	(void)cudaMalloc((void **)&p.out, sizeof(out));
	(void)cudaMalloc((void **)&device_in, sizeof(in));
	(void)cudaMemcpyAsync(device_in, in, sizeof(in), cudaMemcpyHostToDevice, 0);
	p.in = device_in;
	it->run(&p);
	error = cudaGetLastError();
	if (error != cudaSuccess) {
		printf("%s: launch error: %s\n", it->name, cudaGetErrorString(error));
		return 1;
	}
	(void)cudaMemcpyAsync(out, p.out, sizeof(out), cudaMemcpyDeviceToHost, 0);
	(void)cudaStreamSynchronize(0);
	for (int j = 0; j < N; j++)
		wrong += out[j] != (float)j;
	if (wrong > 0)
		printf("%s: %d wrong\n", it->name, wrong);
	return wrong > 0;
}

int
main(int argc, char **argv)
{
	bool all = argc == 2 && strcmp(argv[1], "right") == 0;
	int failed = 0, ran = 0;

	for (const struct planted *table : tables)
		for (const struct planted *it = table; it->name != NULL; it++)
			if (all || (argc == 2 && strcmp(argv[1], it->name) == 0)) {
				failed |= run(it, !all);
				ran++;
			}
	return ran > 0 ? failed : 2;
}
