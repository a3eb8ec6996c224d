/*
 * Any bytes as a sampling artifact: refused, or finite values. A first byte of 'z' hands the rest
 * to the reader as it is; any other packs the rest first, so that the fuzzer gets past the gzip CRC
 * to the tar inside.
 */
#include <math.h>

#include "worker/artifact/gzip.h"
#include "worker/artifact/sampling.h"

#include "tests/fuzz/fuzz_adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_archive(int fd)
{
	float param[14];
	struct refusal r;

	if (sampling_read(fd, &fuzz_state.identity, &fuzz_adapter, param, &r) == 0) {
		for (size_t i = 0; i < 14; i++)
			if (!isfinite(param[i]))
				abort();
	} else if (r.status != 422) {
		abort();
	}
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct artifact_sink sink;
	struct artifact_sum sum;
	struct gzip_writer *gzip;
	struct refusal r;
	int fd;

	if (size == 0)
		return 0;
	if (data[0] == 'z') {
		read_archive(fuzz_file(data + 1, size - 1));
		return 0;
	}
	fd = fuzz_file("", 0);
	if (artifact_sink_init(&sink, fd, &r) != 0)
		abort();
	gzip = gzip_writer_new(&sink);
	gzip_write(gzip, data + 1, size - 1);
	gzip_writer_finish(gzip);
	if (artifact_sink_finish(&sink, &sum, &r) != 0)
		abort();
	gzip_writer_free(gzip);
	artifact_sink_fini(&sink);
	read_archive(fd);
	return 0;
}
