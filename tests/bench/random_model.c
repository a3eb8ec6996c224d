#include "tests/bench/random_model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Elements that are made; a tensor takes as many of them as it has, again and again. */
enum { BLOCK = 8 << 20, WRITERS = 16, PATH_SIZE = 1024 };
/* Memory that is not taken for weights. */
static const size_t MEMORY_LEFT = (size_t)2 << 30;

/* The header as it is written; where `text` is NULL, its length alone. rows 0 is a vector. */
struct header {
	char *text;
	size_t length, bytes; /* of text; of the tensors so far */
};

static void
tensor(struct header *h, const char *name, size_t rows, size_t cols)
{
	const size_t from = h->bytes;
	char line[256], shape[64];
	int n;

	if (rows == 0)
		snprintf(shape, sizeof(shape), "%zu", cols);
	else
		snprintf(shape, sizeof(shape), "%zu,%zu", rows, cols);
	h->bytes += 2 * (rows == 0 ? 1 : rows) * cols;
	n = snprintf(line, sizeof(line),
	    "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
	    from == 0 ? "{" : ",", name, shape, from, h->bytes);
	if (h->text != NULL)
		memcpy(h->text + h->length, line, (size_t)n);
	h->length += (size_t)n;
}

static void
layer(struct header *h, const struct roof_model *m, size_t index)
{
	const size_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
	const struct {
		const char *path;
		size_t rows, cols;
	} tensors[] = {
	    {"input_layernorm", 0, m->width},
	    {"post_attention_layernorm", 0, m->width},
	    {"self_attn.q_proj", q, m->width},
	    {"self_attn.k_proj", kv, m->width},
	    {"self_attn.v_proj", kv, m->width},
	    {"self_attn.o_proj", m->width, q},
	    {"mlp.gate_proj", m->mlp_width, m->width},
	    {"mlp.up_proj", m->mlp_width, m->width},
	    {"mlp.down_proj", m->width, m->mlp_width},
	};

	for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++) {
		char name[128];

		snprintf(name, sizeof(name), "model.layers.%zu.%s.weight", index, tensors[i].path);
		tensor(h, name, tensors[i].rows, tensors[i].cols);
	}
}

static void
make_header(struct header *h, const struct roof_model *m)
{
	h->length = h->bytes = 0;
	tensor(h, "model.embed_tokens.weight", m->vocabulary, m->width);
	if (!m->tied)
		tensor(h, "lm_head.weight", m->vocabulary, m->width);
	tensor(h, "model.norm.weight", 0, m->width);
	for (size_t i = 0; i < m->layers; i++)
		layer(h, m, i);
	if (h->text != NULL)
		memset(h->text + h->length, ' ', 8);
	if (h->text != NULL)
		h->text[h->length] = '}';
	h->length = (h->length + 8) / 8 * 8;
}

/* Random bits of bfloat16 between 2^-8 and 2^-5 in size, as weights are, of either sign. */
static void
fill(uint16_t *block)
{
	uint64_t state = 1;

	for (size_t i = 0; i < BLOCK; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		block[i] = (uint16_t)((119 + (state >> 33) % 3) << 7 | (state >> 40 & 0x807f));
	}
}

static bool
write_whole(int fd, const void *from, size_t bytes, size_t at)
{
	while (bytes > 0) {
		const ssize_t n = pwrite(fd, from, bytes, (off_t)at);

		if (n <= 0)
			return false;
		from = (const char *)from + n;
		bytes -= (size_t)n;
		at += (size_t)n;
	}
	return true;
}

/* One of `count` threads that write the tensors: each count-th block from number `first` on. */
struct writer {
	pthread_t thread;
	int fd;
	const uint16_t *block;
	size_t first, count, start, bytes; /* start: in the file, bytes: of all */
	bool written, running;
};

static void *
write_blocks(void *argument)
{
	const size_t most = BLOCK * sizeof(uint16_t);
	struct writer *w = argument;

	w->written = true;
	for (size_t at = w->first * most; w->written && at < w->bytes; at += w->count * most) {
		const size_t left = w->bytes - at < most ? w->bytes - at : most;

		w->written = write_whole(w->fd, w->block, left, w->start + at);
	}
	return NULL;
}

/* By as many threads as there are processors: one alone is slower than a GPU reads. */
static bool
write_tensors(int fd, size_t start, size_t bytes)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const size_t count = processors < 1	    ? 1
			     : processors > WRITERS ? WRITERS
						    : (size_t)processors;
	uint16_t *block = malloc(BLOCK * sizeof(*block));
	struct writer writers[WRITERS];
	bool written = block != NULL;

	if (!written)
		return false;
	fill(block);
	for (size_t i = 0; i < count; i++) {
		struct writer *w = &writers[i];

		*w = (struct writer){.fd = fd,
		    .block = block,
		    .first = i,
		    .count = count,
		    .start = start,
		    .bytes = bytes};
		w->running = pthread_create(&w->thread, NULL, write_blocks, w) == 0;
		if (!w->running)
			write_blocks(w);
	}
	for (size_t i = 0; i < count; i++) {
		if (writers[i].running)
			pthread_join(writers[i].thread, NULL);
		written = written && writers[i].written;
	}
	free(block);
	return written;
}

static int
write_weights(int fd, const struct roof_model *m)
{
	struct header h = {0};
	uint64_t length;
	bool written;

	make_header(&h, m);
	h.text = malloc(h.length + 8);
	if (h.text == NULL)
		return -1;
	make_header(&h, m);
	length = h.length;
	written = write_whole(fd, &length, 8, 0) && write_whole(fd, h.text, h.length, 8) &&
		  write_tensors(fd, 8 + h.length, h.bytes);
	free(h.text);
	return written ? 0 : -1;
}

static void
name_file(char path[PATH_SIZE], const char *folder, const char *name)
{
	snprintf(path, PATH_SIZE, "%s/%s", folder, name);
}

/* What the machine can give without taking it from others. */
static size_t
memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	size_t kilobytes = 0;
	char line[128];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kilobytes << 10;
}

static bool
disk_has(const char *folder, size_t bytes)
{
	struct statvfs disk;

	return statvfs(folder, &disk) != 0 || disk.f_bavail * disk.f_frsize > bytes + (64 << 20);
}

/* The file of the weights: memory with a name in the folder, or a file of the folder. */
static int
open_weights(const char *folder, size_t bytes, bool *in_memory)
{
	char path[PATH_SIZE], target[64];
	int fd;

	name_file(path, folder, "model.safetensors");
	*in_memory = memory_available() > bytes + bytes / 4 + MEMORY_LEFT;
	if (!*in_memory)
		return disk_has(folder, bytes)
			   ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
			   : -1;
	fd = memfd_create("model.safetensors", MFD_CLOEXEC);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
	if (fd >= 0 && symlink(target, path) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

size_t
random_model_bytes(const struct roof_model *m)
{
	struct header h = {0};

	make_header(&h, m);
	return h.bytes;
}

void
random_model_config(const struct roof_model *m, FILE *f)
{
	fprintf(f,
	    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
	    "\"hidden_act\":\"silu\",\"hidden_size\":%zu,\"intermediate_size\":%zu,"
	    "\"num_hidden_layers\":%zu,\"num_attention_heads\":%zu,\"num_key_value_heads\":%zu,"
	    "\"head_dim\":%zu,\"vocab_size\":%zu,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
	    "\"max_position_embeddings\":131072,\"attention_bias\":false,\"mlp_bias\":false,"
	    "\"tie_word_embeddings\":%s,\"torch_dtype\":\"bfloat16\"}\n",
	    m->width, m->mlp_width, m->layers, m->heads, m->kv_heads, m->head_dim, m->vocabulary,
	    m->tied ? "true" : "false");
}

size_t
random_model_write(const struct roof_model *m, const char *folder, bool *in_memory)
{
	char path[PATH_SIZE];
	FILE *f;
	int fd;

	name_file(path, folder, "config.json");
	f = fopen(path, "we");
	if (f == NULL)
		return 0;
	random_model_config(m, f);
	if (fclose(f) != 0)
		return 0;
	fd = open_weights(folder, random_model_bytes(m), in_memory);
	if (fd < 0 || write_weights(fd, m) != 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	/* Memory stays open: its name in the folder leads to the descriptor. */
	if (!*in_memory && close(fd) != 0)
		return 0;
	return random_model_bytes(m);
}

void
random_model_remove(const char *folder)
{
	static const char *const names[] = {"config.json", "model.safetensors"};
	char path[PATH_SIZE];

	for (int i = 0; i < 2; i++) {
		name_file(path, folder, names[i]);
		unlink(path);
	}
}
