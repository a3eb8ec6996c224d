/* The store: what was committed is there after a restart, and a newer store is left alone. */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/wire.h"
#include "supervisor/store/store.h"
#include "supervisor/store/store_env.h"
#include "tests/unit/test.h"

static char folder[64];

static void
make_folder(void)
{
	snprintf(folder, sizeof(folder), "/tmp/test_store.XXXXXX");
	if (mkdtemp(folder) == NULL)
		abort();
}

static void
remove_folder(void)
{
	char path[128];

	for (const char *const *name = (const char *const[]){"data.mdb", "lock.mdb", NULL};
	     *name != NULL; name++) {
		snprintf(path, sizeof(path), "%s/%s", folder, *name);
		unlink(path);
	}
	rmdir(folder);
}

struct seen {
	size_t count;
	char text[256];
};

static int
note(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	struct seen *seen = ctx;
	size_t at = strlen(seen->text);

	seen->count++;
	snprintf(seen->text + at, sizeof(seen->text) - at, "%.*s=%.*s;", (int)key_len,
	    (const char *)key, (int)len, (const char *)data);
	return 0;
}

static void
count_done(void *ctx, int error)
{
	*(int *)ctx += error == 0 ? 1 : 1000;
}

static struct store_write
put(const char *key, const char *data)
{
	return (struct store_write){
	    STORE_SESSIONS, key, strlen(key), data, data == NULL ? 0 : strlen(data)};
}

TEST(records_survive)
{
	struct event_base *base = event_base_new();
	struct store_write two[2] = {put("b", "2"), put("a", "1")};
	struct store_write change[2] = {put("a", NULL), put("c", "3")};
	struct store_write absent = put("never", NULL);
	struct store_facts facts;
	struct seen seen = {0};
	struct store *s;
	int done = 0;

	make_folder();
	CHECK(store_open(&s, base, folder) == 0);
	CHECK(store_commit(s, two, 2, count_done, &done) == 0);
	CHECK(store_commit(s, change, 2, count_done, &done) == 0);
	CHECK(store_commit(s, &absent, 1, count_done, &done) == 0);
	for (int i = 0; i < 1000 && done < 3; i++)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK(done == 3);
	CHECK(store_facts(s, &facts) == 0 && facts.changes == 0 && facts.oldest_seconds == 0);
	CHECK(store_each(s, STORE_SESSIONS, note, &seen) == 0);
	CHECK_STR(seen.text, "b=2;c=3;");
	/* Queued and not waited for: closing writes it. */
	CHECK(store_commit(s, &two[1], 1, count_done, &done) == 0);
	store_close(s);
	CHECK(done == 3);

	memset(&seen, 0, sizeof(seen));
	CHECK(store_open(&s, base, folder) == 0);
	CHECK(store_each(s, STORE_SESSIONS, note, &seen) == 0);
	CHECK_STR(seen.text, "a=1;b=2;c=3;");
	CHECK(store_each(s, STORE_META, note, &seen) == 0);
	CHECK(seen.count == 4);
	store_close(s);
	event_base_free(base);
	remove_folder();
}

static long
file_bytes(const char *name, char *out, size_t size)
{
	char path[128];
	long n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	n = read(fd, out, size);
	close(fd);
	return n;
}

TEST(a_newer_store_is_left_alone)
{
	static char before[1 << 20], after[1 << 20];
	struct event_base *base = event_base_new();
	struct store_env env = {0};
	uint8_t newer[4];
	struct wire_put w;
	struct store_write version = {STORE_META, "version", 7, newer, 4};
	struct store *s;
	MDB_txn *txn;
	long len;

	make_folder();
	CHECK(store_open(&s, base, folder) == 0);
	store_close(s);
	wire_put_init(&w, newer, sizeof(newer));
	wire_put_u32(&w, STORE_VERSION + 1);
	CHECK(store_env_open(&env, folder) == 0);
	CHECK(store_env_begin(&env, &txn) == 0);
	CHECK(store_env_apply(&env, txn, &version, 1) == 0);
	CHECK(store_env_commit(txn) == 0);
	store_env_close(&env);

	len = file_bytes("data.mdb", before, sizeof(before));
	CHECK(len > 0);
	CHECK(store_open(&s, base, folder) == -EPROTO);
	CHECK(s == NULL);
	CHECK(file_bytes("data.mdb", after, sizeof(after)) == len);
	CHECK(memcmp(before, after, (size_t)len) == 0);
	event_base_free(base);
	remove_folder();
}

TEST(what_is_no_store_is_refused)
{
	struct event_base *base = event_base_new();
	struct store *s;
	char path[128];
	FILE *file;

	make_folder();
	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	file = fopen(path, "w");
	for (int i = 0; i < 1000; i++)
		fputs("this is no LMDB file\n", file);
	fclose(file);
	CHECK(store_open(&s, base, folder) == -EINVAL);
	/* Cut short when it was made: begun anew. */
	CHECK(truncate(path, 0) == 0);
	CHECK(store_open(&s, base, folder) == 0);
	store_close(s);
	/* Nobody writes into it: it would be waited for. */
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	CHECK(store_open(&s, base, folder) == -EINVAL);
	CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
	CHECK(store_open(&s, base, folder) == -EISDIR);
	rmdir(path);
	event_base_free(base);
	remove_folder();
}

/* A disk that lost the end of the file: an error, or what is left, and never a signal. */
TEST(a_cut_store_ends_nothing)
{
	enum { RECORDS = 200, PAGE = 4096 };
	struct event_base *base = event_base_new();
	char key[32], data[512] = "", path[128];
	struct seen seen = {0};
	struct store *s;
	struct stat st;
	int done = 0, refused = 0;

	make_folder();
	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	memset(data, 'x', sizeof(data) - 1);
	CHECK(store_open(&s, base, folder) == 0);
	for (int i = 0; i < RECORDS; i++) {
		struct store_write one;

		snprintf(key, sizeof(key), "%08d", i);
		one = put(key, data);
		CHECK(store_commit(s, &one, 1, count_done, &done) == 0);
	}
	store_close(s);
	CHECK(stat(path, &st) == 0);
	for (off_t pages = st.st_size / PAGE - 1; pages >= 1; pages--) {
		CHECK(truncate(path, pages * PAGE + PAGE / 2) == 0);
		if (store_open(&s, base, folder) != 0) {
			refused++;
			continue;
		}
		refused += store_each(s, STORE_SESSIONS, note, &seen) != 0;
		for (int i = 0; i < RECORDS; i += RECORDS / 4) {
			struct store_write one;
			size_t len;
			void *got;

			snprintf(key, sizeof(key), "%08d", i);
			one = put(key, data);
			store_get(s, STORE_SESSIONS, key, strlen(key), &got, &len);
			free(got);
			CHECK(store_commit(s, &one, 1, count_done, &done) == 0);
		}
		store_close(s);
	}
	CHECK(refused > 0);
	event_base_free(base);
	remove_folder();
}

enum { DAMAGED_RECORDS = 200, LARGE = 20000 };

/* Small and large records in several tables, some of them changed and removed: every kind of page.
 */
static void
fill(struct store *s, struct event_base *base)
{
	static char large[LARGE];
	char key[32];
	int done = 0;

	memset(large, 'x', sizeof(large));
	for (int i = 0; i < 4 * DAMAGED_RECORDS; i++) {
		struct store_write one = {.table = i % 2 == 0 ? STORE_JOURNAL : STORE_ANSWERS,
		    .key = key,
		    .data = i % 7 == 3 ? NULL : large,
		    .len = i % 40 == 0 ? LARGE : 100 + (size_t)i % 400};

		one.key_len = (size_t)snprintf(key, sizeof(key), "%08d", i % DAMAGED_RECORDS);
		CHECK(store_commit(s, &one, 1, count_done, &done) == 0);
		while (i % 10 == 9 && done <= i) /* so that there are many changes */
			event_base_loop(base, EVLOOP_ONCE);
	}
}

/* What stepd does with a store, as far as it lets it. The exit status: 0 it opened, 1 it did not.
 */
static int
use(void)
{
	struct event_base *base = event_base_new();
	struct seen seen = {0};
	struct store *s;
	int done = 0;

	if (store_open(&s, base, folder) != 0)
		return 1;
	for (int i = 0; i < STORE_TABLES; i++)
		store_each(s, (enum store_table)i, note, &seen);
	for (int i = 0; i < 2 * DAMAGED_RECORDS; i++) {
		struct store_write one = {STORE_JOURNAL, "00000000", 8, i % 2 == 0 ? "y" : NULL, 1};
		char key[32];

		one.key = key;
		one.key_len = (size_t)snprintf(key, sizeof(key), "%08d", i / 2);
		store_commit(s, &one, 1, count_done, &done);
	}
	store_close(s);
	return 0;
}

static uint64_t
next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Bits, words or a page of the file become others. */
static void
damage(uint8_t *data, size_t len, uint64_t seed)
{
	enum { PAGE = 4096 };
	uint64_t state = seed, how = next_random(&state) % 4, at = next_random(&state) % (len - 8);
	uint8_t *page = data + at / PAGE * PAGE;

	if (how == 0)
		data[at] ^= (uint8_t)(1u << next_random(&state) % 8);
	else if (how == 1)
		memset(data + at, (int)next_random(&state), 8);
	else if (how == 2)
		page[8 + next_random(&state) % 64] = (uint8_t)next_random(&state);
	else
		for (size_t i = 0; i < PAGE; i++)
			page[i] = seed % 2 == 0 ? 0 : (uint8_t)next_random(&state);
}

/* A disk that changed the file: it is refused, or what is left is used, and never a signal. */
TEST(a_damaged_store_ends_nothing)
{
	enum { TRIES = 400 };
	struct event_base *base = event_base_new();
	static uint8_t good[4 << 20], bad[4 << 20];
	char path[128];
	struct store *s;
	int refused = 0, used = 0;
	long len;

	make_folder();
	CHECK(store_open(&s, base, folder) == 0);
	fill(s, base);
	store_close(s);
	len = file_bytes("data.mdb", (char *)good, sizeof(good));
	CHECK(len > 0 && len < (long)sizeof(good));
	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	for (uint64_t seed = 0; seed <= TRIES; seed++) {
		int fd = open(path, O_WRONLY | O_TRUNC), status = -1;
		pid_t pid;

		memcpy(bad, good, (size_t)len);
		if (seed < TRIES)
			damage(bad, (size_t)len, seed);
		CHECK(write(fd, bad, (size_t)len) == len);
		close(fd);
		pid = fork();
		if (pid == 0) {
			alarm(60);
			fclose(stderr);
			_exit(use());
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "damage %d: status %x",
		    (int)seed, (unsigned)status);
		CHECK_MSG(seed < TRIES || status == 0, "the good one opens");
		refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
		used += status == 0;
	}
	CHECK_MSG(refused > TRIES / 10 && used > TRIES / 10, "%d refused, %d used", refused, used);
	event_base_free(base);
	remove_folder();
}

TEST_MAIN(TEST_CASE(records_survive), TEST_CASE(a_newer_store_is_left_alone),
    TEST_CASE(what_is_no_store_is_refused), TEST_CASE(a_cut_store_ends_nothing),
    TEST_CASE(a_damaged_store_ends_nothing))
