/* The sampling artifact that is written: read again, of other sessions, of part of the layers. */
#include <math.h>

#include "ipc/tar_read.h"
#include "tests/unit/sampling_fixture.h"
#include "worker/artifact/tar.h"

TEST(round_trip)
{
	struct sampling s;
	struct artifact_sum sum;
	float *param;
	int fd = craft_fd("", 0), full = open("/dev/full", O_WRONLY);

	set_up("all-linear");
	s = (struct sampling){.identity = identity, .step = 5, .loss = NAN};
	param = malloc(adapter.size * sizeof(float));
	for (size_t i = 0; i < adapter.size; i++)
		param[i] = sinf((float)i);
	CHECK(sampling_write(fd, &s, &adapter, param, files, NULL, &sum, &refusal) == 0);
	CHECK(sum.size == (uint64_t)lseek(fd, 0, SEEK_END) && strlen(sum.sha256) == 64);
	CHECK_MSG(sampling_read(fd, &identity, &adapter, got, &refusal) == 0, "%s", refusal.text);
	CHECK(memcmp(param, got, adapter.size * sizeof(float)) == 0);
	identity.seed = 99; /* of no meaning to an adapter */
	identity.dropout = 0.5;
	identity.base_sha256 = "other";
	CHECK(sampling_read(fd, &identity, &adapter, got, &refusal) == 0);
	identity.base_model = "other";
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "base_model");
	identity.base_model = "llama_gqa";
	identity.model_revision = "0123456789012345678901234567890123456789";
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "model_revision");
	identity.model_revision = "";
	identity.rank = 5;
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "match r:");
	identity.rank = 4;
	identity.alpha = 16;
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "lora_alpha");
	CHECK(sampling_write(full, &s, &adapter, param, files, NULL, &sum, &refusal) == -1);
	CHECK(refusal.status == 507 && strstr(refusal.text, "No space left") != NULL);
	param[adapter.size - 1] = INFINITY;
	CHECK(sampling_write(full, &s, &adapter, param, files, NULL, &sum, &refusal) == -1);
	CHECK(refusal.status == 422 && strstr(refusal.text, "not finite") != NULL);
	free(param);
	close(fd);
	close(full);
	tear_down();
}

/* Two modules of one layer only: the configuration names them by path. */
TEST(part_of_the_layers)
{
	struct sampling s;
	struct artifact_sum sum;
	struct bytes config = {NULL, 0};
	struct tar_member m;
	struct gzip_reader *gzip;
	struct tar_reader *tar;
	struct artifact_view view;
	float *param;
	int fd = craft_fd("", 0);

	set_up("layers.1.self_attn.q_proj,v_proj");
	s = (struct sampling){.identity = identity};
	param = calloc(adapter.size, sizeof(float));
	CHECK(sampling_write(fd, &s, &adapter, param, files, NULL, &sum, &refusal) == 0);
	CHECK(sampling_read(fd, &identity, &adapter, got, &refusal) == 0);
	CHECK(artifact_map(&view, fd, &refusal) == 0);
	gzip = gzip_reader_new(view.data, view.len, 1 << 30);
	tar = tar_reader_new(gzip);
	CHECK(tar_next(tar, &m, &refusal) == 1);
	CHECK_STR(m.name, "adapter/adapter_config.json");
	config.data = calloc(1, m.size + 1);
	CHECK(tar_read(tar, config.data, &refusal) == 0);
	CHECK(strstr((char *)config.data,
		  "\"target_modules\":[\"model.layers.1.self_attn.q_proj\",\"v_proj\"]") != NULL);
	bytes_free(&config);
	tar_reader_free(tar);
	gzip_reader_free(gzip);
	artifact_unmap(&view);
	free(param);
	close(fd);
	tear_down();
}

TEST(no_archive)
{
	int fd;

	set_up("all-linear");
	fd = craft_fd("", 0);
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "empty");
	close(fd);
	fd = craft_fd("0123456789012345678901234567890123456789", 40);
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "not a gzip file");
	close(fd);
	tear_down();
}

TEST_MAIN(TEST_CASE(round_trip), TEST_CASE(part_of_the_layers), TEST_CASE(no_archive))
