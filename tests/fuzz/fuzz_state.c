/* Any bytes as a state artifact: refused, or values that are finite and a step that is there. */
#include <math.h>

#include "tests/fuzz/fuzz_adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	float param[14], exp_avg[14], exp_avg_sq[14];
	struct state_loaded loaded;
	struct refusal r;
	int fd = fuzz_file(data, size);

	if (state_read(fd, &fuzz_state, &fuzz_adapter, param, exp_avg, exp_avg_sq, &loaded, &r) ==
	    0) {
		for (size_t i = 0; i < 14; i++)
			if (!isfinite(param[i]) || !isfinite(exp_avg[i]) || !(exp_avg_sq[i] >= 0))
				abort();
	} else if (r.status != 422) {
		abort();
	}
	close(fd);
	return 0;
}
