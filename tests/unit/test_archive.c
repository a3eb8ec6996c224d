/* gzip and tar: streams of any size, archives as Python and GNU tar make them, and hostile ones. */
#include "worker/artifact/tar.h"
#include "ipc/tar_read.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

static struct refusal refusal;
static const uint64_t no_limit = UINT64_C(1) << 33;

/* What is put between the two ends up in a file's bytes. */
struct packing {
	int fd;
	struct artifact_sink sink;
	struct gzip_writer *gzip;
};

static void
pack(struct packing *p)
{
	p->fd = craft_fd("", 0);
	if (artifact_sink_init(&p->sink, p->fd, &refusal) != 0)
		abort();
	p->gzip = gzip_writer_new(&p->sink);
}

static struct bytes
packed(struct packing *p)
{
	struct bytes b = {NULL, 0};
	struct artifact_sum sum;

	gzip_writer_finish(p->gzip);
	CHECK(artifact_sink_finish(&p->sink, &sum, &refusal) == 0);
	gzip_writer_free(p->gzip);
	artifact_sink_fini(&p->sink);
	b.len = (size_t)lseek(p->fd, 0, SEEK_END);
	b.data = malloc(b.len);
	CHECK(pread(p->fd, b.data, b.len, 0) == (ssize_t)b.len && b.len == sum.size);
	close(p->fd);
	return b;
}

static struct bytes
zip(const void *data, size_t len)
{
	struct packing p;

	pack(&p);
	gzip_write(p.gzip, data, len);
	return packed(&p);
}

/* Unpacks all, `piece` bytes at a time: the count, or -1. */
static ptrdiff_t
unzip(const struct bytes *b, void *out, size_t size, size_t piece, uint64_t limit)
{
	struct gzip_reader *g = gzip_reader_new(b->data, b->len, limit);
	size_t done = 0;
	ptrdiff_t n = 1;

	while (n > 0 && done < size) {
		n = gzip_read(
		    g, (char *)out + done, size - done < piece ? size - done : piece, &refusal);
		done += n > 0 ? (size_t)n : 0;
	}
	gzip_reader_free(g);
	return n < 0 ? -1 : (ptrdiff_t)done;
}

TEST(gzip_round_trip)
{
	enum { SIZE = 1500000 };
	unsigned char *data = malloc(SIZE), *back = malloc(SIZE + 1);
	static const size_t sizes[] = {0, 1, 511, 65536, 262144, SIZE};
	uint32_t x = 1;

	for (size_t i = 0; i < SIZE; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = i < SIZE / 2 ? (unsigned char)(x >> 24) : (unsigned char)(i / 1000);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bytes b = zip(data + SIZE - sizes[i], sizes[i]), twice = {NULL, 0};

		CHECK(unzip(&b, back, SIZE + 1, 70001, no_limit) == (ptrdiff_t)sizes[i]);
		CHECK(memcmp(back, data + SIZE - sizes[i], sizes[i]) == 0);
		if (sizes[i] <= SIZE / 2) { /* two members, zeros after the last */
			put(&twice, b.data, b.len);
			put(&twice, b.data, b.len);
			put_zeros(&twice, 100);
			CHECK(unzip(&twice, back, SIZE + 1, 4096, no_limit) ==
			      (ptrdiff_t)(2 * sizes[i]));
			bytes_free(&twice);
		}
		bytes_free(&b);
	}
	free(data);
	free(back);
}

TEST(gzip_damage)
{
	char text[5000], back[6000];
	struct bytes b;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i * i % 23);
	b = zip(text, sizeof(text));
	for (size_t i = 0; i < b.len; i++) { /* cut at every byte */
		unsigned char *copy = malloc(i + 1);
		struct bytes part = {copy, i};

		memcpy(copy, b.data, i);
		CHECK_MSG(unzip(&part, back, sizeof(back), 999, no_limit) == -1, "%zu", i);
		free(copy);
	}
	b.data[b.len - 8] ^= 1; /* CRC */
	CHECK(unzip(&b, back, sizeof(back), sizeof(back), no_limit) == -1);
	b.data[b.len - 8] ^= 1;
	b.data[b.len - 1] ^= 1; /* length */
	CHECK(unzip(&b, back, sizeof(back), sizeof(back), no_limit) == -1);
	b.data[b.len - 1] ^= 1;
	CHECK(unzip(&b, back, sizeof(back), 100, 4999) == -1);
	CHECK(strstr(refusal.text, "limit") != NULL);
	CHECK(unzip(&b, back, sizeof(back), 100, 5000) == 5000);
	put(&b, "x", 1);
	CHECK(unzip(&b, back, sizeof(back), sizeof(back), no_limit) == -1);
	CHECK(strstr(refusal.text, "after the end") != NULL);
	bytes_free(&b);
	b = (struct bytes){NULL, 0};
	put(&b, "this is plain text and no archive", 33);
	CHECK(unzip(&b, back, sizeof(back), sizeof(back), no_limit) == -1);
	CHECK(strstr(refusal.text, "not a gzip file") != NULL);
	bytes_free(&b);
}

/* A header block as another program would write it. */
static void
put_block(struct gzip_writer *w, const char *name, char type, uint64_t size, const char *link)
{
	struct tar_header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	memcpy(h.linkname, link, strlen(link));
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size);
	snprintf(h.checksum, sizeof(h.checksum), "%06o", tar_checksum(&h));
	h.checksum[7] = ' ';
	gzip_write(w, &h, sizeof(h));
}

static void
put_data(struct gzip_writer *w, const char *data, size_t len)
{
	gzip_write(w, data, len);
	tar_put_padding(w, len);
}

/* Names and sizes of all members as one line, or "-" if refused. */
static const char *
listing(const struct bytes *b)
{
	static char text[8192];
	struct gzip_reader *g = gzip_reader_new(b->data, b->len, no_limit);
	struct tar_reader *t = tar_reader_new(g);
	struct tar_member m;
	size_t len = 0;
	int more;

	text[0] = '\0';
	while ((more = tar_next(t, &m, &refusal)) == 1)
		if (len < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%llu%s",
			    len != 0 ? " " : "", m.name, (unsigned long long)m.size,
			    m.folder ? "/" : "");
	tar_reader_free(t);
	gzip_reader_free(g);
	return more < 0 ? "-" : text;
}

TEST(tar_round_trip)
{
	struct packing p;
	struct bytes b;
	struct gzip_reader *g;
	struct tar_reader *t;
	struct tar_member m;
	char data[1000], back[1000];

	memset(data, 'q', sizeof(data));
	pack(&p);
	tar_put_file(p.gzip, "adapter/a", data, sizeof(data));
	tar_put_file(p.gzip, "adapter/b", "", 0);
	tar_put_file(p.gzip, "c", data, 512);
	tar_put_end(p.gzip);
	b = packed(&p);
	CHECK_STR(listing(&b), "adapter/a=1000 adapter/b=0 c=512");
	g = gzip_reader_new(b.data, b.len, no_limit);
	t = tar_reader_new(g);
	CHECK(tar_next(t, &m, &refusal) == 1 && tar_read(t, back, &refusal) == 0);
	CHECK(memcmp(data, back, sizeof(data)) == 0);
	CHECK(tar_next(t, &m, &refusal) == 1 && m.size == 0 && tar_read(t, back, &refusal) == 0);
	CHECK(tar_next(t, &m, &refusal) == 1 && strcmp(m.name, "c") == 0);
	CHECK(tar_next(t, &m, &refusal) == 0);
	tar_reader_free(t);
	gzip_reader_free(g);
	bytes_free(&b);
}

/* pax records, GNU long names, folders, "./": as tarfile, GNU tar and BSD tar write them. */
TEST(tar_forms)
{
	static const char pax[] = "28 mtime=1700000000.1234567\n15 path=./x/yz\n9 size=3\n";
	static const char long_name[] = "adapter/a-long-name";
	struct packing p;
	struct bytes b;

	pack(&p);
	put_block(p.gzip, "global", 'g', 9, "");
	put_data(p.gzip, "9 a=bcde\n", 9);
	put_block(p.gzip, "./", '5', 0, "");
	put_block(p.gzip, "./adapter/", '5', 0, "");
	put_block(p.gzip, "PaxHeaders/x", 'x', sizeof(pax) - 1, "");
	put_data(p.gzip, pax, sizeof(pax) - 1);
	put_block(p.gzip, "short", '0', 0, "");
	put_data(p.gzip, "abc", 3);
	put_block(p.gzip, "././@LongLink", 'L', sizeof(long_name), "");
	put_data(p.gzip, long_name, sizeof(long_name));
	put_block(p.gzip, "adapter/a-lo", '\0', 2, "");
	put_data(p.gzip, "hi", 2);
	put_block(p.gzip, "last", '7', 0, "");
	tar_put_end(p.gzip);
	b = packed(&p);
	CHECK_MSG(strcmp(listing(&b), "=0/ adapter=0/ x/yz=3 adapter/a-long-name=2 last=0") == 0,
	    "%s: %s", listing(&b), refusal.text);
	bytes_free(&b);
}

static void
refused(const struct bytes *b, const char *word)
{
	const char *list = listing(b);

	CHECK_MSG(
	    strcmp(list, "-") == 0 && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "%s \"%s\", want \"%s\"", list, list[0] == '-' ? refusal.text : "", word);
}

static void
refused_member(const char *name, char type, uint64_t size, const char *link, const char *word)
{
	struct packing p;
	struct bytes b;

	pack(&p);
	tar_put_file(p.gzip, "0", "x", 1);
	tar_put_file(p.gzip, "adapter/good", "x", 1);
	put_block(p.gzip, name, type, size, link);
	tar_put_end(p.gzip);
	b = packed(&p);
	refused(&b, word);
	bytes_free(&b);
}

TEST(tar_hostile_members)
{
	refused_member("../escape", '0', 0, "", "`..`");
	refused_member("adapter/../../x", '0', 0, "", "`..`");
	refused_member("adapter/..", '5', 0, "", "`..`");
	refused_member("./../x", '0', 0, "", "`..`");
	refused_member("/etc/passwd", '0', 0, "", "absolute");
	refused_member("adapter\\..\\x", '0', 0, "", "backslash");
	refused_member("a\nb", '0', 0, "", "control");
	refused_member("", '0', 0, "", "without a name");
	refused_member("./", '0', 0, "", "without a name");
	refused_member("adapter/good", '0', 0, "", "twice");
	refused_member("./adapter//good/", '0', 0, "", "twice");
	refused_member("adapter/./good", '0', 0, "", "twice");
	refused_member("0", '0', 0, "", "twice"); /* not side by side */
	refused_member("adapter/link", '2', 0, "/etc/passwd", "link");
	refused_member("adapter/link", '1', 0, "adapter/good", "link");
	refused_member("dev", '3', 0, "", "no plain file");
	refused_member("fifo", '6', 0, "", "no plain file");
	refused_member("sparse", 'S', 0, "", "no plain file");
	refused_member("folder", '5', 10, "", "folder with data");
	refused_member("big", '0', UINT64_C(1) << 32, "", "ends inside");
	refused_member("bigger", '0', (UINT64_C(1) << 33) - 1, "", "more than its limit");
	refused_member("long", 'L', 2000000, "", "extended header");
	refused_member("long", 'L', 0, "", "empty");
	refused_member("pax", 'x', 600, "", "ends inside");
}

static void
refused_pax(const char *records, size_t len, const char *word)
{
	struct packing p;
	struct bytes b;

	pack(&p);
	put_block(p.gzip, "pax", 'x', len, "");
	put_data(p.gzip, records, len);
	tar_put_file(p.gzip, "plain", "x", 1);
	tar_put_end(p.gzip);
	b = packed(&p);
	refused(&b, word);
	bytes_free(&b);
}

TEST(tar_hostile_pax)
{
	refused_pax("17 path=../escape\n", 18, "damaged pax");
	refused_pax("18 path=../escape\n", 18, "`..`");
	refused_pax("16 path=/absolut\n", 17, "damaged pax");
	refused_pax("17 path=/absolut\n", 17, "absolute");
	refused_pax("11 path=a\0b\n", 12, "damaged pax");
	refused_pax("12 path=a\0b\n", 12, "NUL");
	refused_pax("999 path=x\n", 11, "damaged pax");
	refused_pax("0 path=x\n", 9, "damaged pax");
	refused_pax("path=x\n", 7, "damaged pax");
	refused_pax("8 pathx\n", 8, "damaged pax");
	refused_pax("10 size=-1\n", 11, "damaged pax");
	refused_pax("11 size=-1\n", 11, "damaged pax");
	refused_pax("31 size=99999999999999999999999\n", 32, "damaged pax");
	refused_pax("22 GNU.sparse.major=1\n", 22, "sparse");
	refused_pax("99999999999999999999 path=x\n", 28, "damaged pax");
}

TEST(tar_damage)
{
	struct tar_header h;
	struct packing p;
	struct bytes b, plain = {NULL, 0};

	pack(&p);
	tar_put_file(p.gzip, "a", "x", 1); /* no end */
	b = packed(&p);
	refused(&b, "ends inside");
	bytes_free(&b);
	pack(&p);
	tar_put_file(p.gzip, "a", "x", 1);
	tar_put_end(p.gzip);
	tar_put_file(p.gzip, "b", "x", 1);
	b = packed(&p);
	refused(&b, "after its end");
	bytes_free(&b);
	b = zip("", 0);
	refused(&b, "ends inside");
	bytes_free(&b);
	memset(&h, 0, sizeof(h)); /* a wrong checksum */
	memcpy(h.name, "a", 1);
	memcpy(h.size, "00000000000", 11);
	memcpy(h.checksum, "000000", 6);
	put(&plain, &h, sizeof(h));
	put_zeros(&plain, 1024);
	b = zip(plain.data, plain.len);
	refused(&b, "checksum");
	bytes_free(&b);
	bytes_free(&plain);
}

TEST(tar_many_members)
{
	for (int count = TAR_MAX_MEMBERS; count <= TAR_MAX_MEMBERS + 1; count++) {
		struct packing p;
		struct bytes b;
		char name[32];

		pack(&p);
		for (int i = 0; i < count; i++) {
			snprintf(name, sizeof(name), "adapter/extra-%05d", i);
			tar_put_file(p.gzip, name, "", 0);
		}
		tar_put_end(p.gzip);
		b = packed(&p);
		if (count > TAR_MAX_MEMBERS)
			refused(&b, "10000 members");
		else
			CHECK(strcmp(listing(&b), "-") != 0);
		bytes_free(&b);
	}
}

TEST_MAIN(TEST_CASE(gzip_round_trip), TEST_CASE(gzip_damage), TEST_CASE(tar_round_trip),
    TEST_CASE(tar_forms), TEST_CASE(tar_hostile_members), TEST_CASE(tar_hostile_pax),
    TEST_CASE(tar_damage), TEST_CASE(tar_many_members))
