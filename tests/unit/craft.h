/*
 * Files made by hand for tests of the readers: a growing buffer, safetensors from a header's text,
 * GGUF piece by piece, and folders that vanish after the test.
 */
#ifndef TESTS_UNIT_CRAFT_H
#define TESTS_UNIT_CRAFT_H

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bytes {
	unsigned char *data;
	size_t len;
};

static inline void
put(struct bytes *b, const void *data, size_t len)
{
	b->data = realloc(b->data, b->len + len + 1);
	if (b->data == NULL)
		abort();
	if (len != 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

static inline void
put_uint(struct bytes *b, uint64_t value, size_t size)
{
	put(b, &value, size);
}

static inline void
put_zeros(struct bytes *b, size_t count)
{
	b->data = realloc(b->data, b->len + count + 1);
	if (b->data == NULL)
		abort();
	memset(b->data + b->len, 0, count);
	b->len += count;
}

static inline void
put_floats(struct bytes *b, size_t count, float first, float step)
{
	for (size_t i = 0; i < count; i++) {
		float v = first + step * (float)i;

		put(b, &v, sizeof(v));
	}
}

static inline void
bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){NULL, 0};
}

/* A safetensors file: length, header as given, then the data. */
static inline struct bytes
craft_safetensors(const char *header, const void *data, size_t len)
{
	struct bytes b = {NULL, 0};

	put_uint(&b, strlen(header), 8);
	put(&b, header, strlen(header));
	put(&b, data, len);
	return b;
}

/* GGUF: strings, keys with values, tensors. */
static inline void
put_text(struct bytes *b, const char *text)
{
	put_uint(b, strlen(text), 8);
	put(b, text, strlen(text));
}

static inline void
put_key(struct bytes *b, const char *key, uint32_t type)
{
	put_text(b, key);
	put_uint(b, type, 4);
}

static inline void
put_key_u32(struct bytes *b, const char *key, uint32_t value)
{
	put_key(b, key, 4);
	put_uint(b, value, 4);
}

static inline void
put_key_f32(struct bytes *b, const char *key, float value)
{
	put_key(b, key, 6);
	put(b, &value, 4);
}

static inline void
put_key_text(struct bytes *b, const char *key, const char *text)
{
	put_key(b, key, 8);
	put_text(b, text);
}

static inline void
put_tensor(
    struct bytes *b, const char *name, uint64_t cols, uint64_t rows, uint32_t type, uint64_t offset)
{
	put_text(b, name);
	put_uint(b, rows != 0 ? 2 : 1, 4);
	put_uint(b, cols, 8);
	if (rows != 0)
		put_uint(b, rows, 8);
	put_uint(b, type, 4);
	put_uint(b, offset, 8);
}

static inline void
put_gguf_head(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
	put(b, "GGUF", 4);
	put_uint(b, version, 4);
	put_uint(b, tensors, 8);
	put_uint(b, keys, 8);
}

static inline void
put_padding(struct bytes *b, size_t alignment)
{
	while (b->len % alignment != 0)
		put(b, "", 1);
}

/* A fresh folder; the name is a static buffer. */
static inline const char *
craft_folder(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/tmp/stepd-test-XXXXXX");
	if (mkdtemp(path) == NULL)
		abort();
	return path;
}

static inline void
craft_file(const char *dir, const char *name, const void *data, size_t len)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (f == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0)
		abort();
}

static inline void
craft_text(const char *dir, const char *name, const char *text)
{
	craft_file(dir, name, text, strlen(text));
}

static inline void
craft_unlink(const char *dir, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Removes the folder and the files in it. */
static inline void
craft_remove(const char *dir)
{
	struct dirent *entry;
	DIR *d = opendir(dir);

	while (d != NULL && (entry = readdir(d)) != NULL)
		if (entry->d_name[0] != '.')
			craft_unlink(dir, entry->d_name);
	if (d != NULL)
		closedir(d);
	rmdir(dir);
}

/* An unnamed file with these bytes, at its start. */
static inline int
craft_fd(const void *data, size_t len)
{
	char path[] = "/tmp/stepd-test-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || (len != 0 && write(fd, data, len) != (ssize_t)len))
		abort();
	unlink(path);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

#endif
