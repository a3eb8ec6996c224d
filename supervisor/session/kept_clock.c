#include "supervisor/session/kept_clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/boot_id.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum { VERSION = 1, RECORD_MAX = 128 };

static const char key[] = "clock";

/* Where a stepd was: all in seconds. */
struct place {
	char boot[BOOT_ID]; /* which start of the machine, "" = not known */
	int64_t up, wall, seconds;
};

/* The clock is `ahead` of the time since the start of the machine. */
static int64_t ahead;
static bool begun, left_alone;

static int64_t
up_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec;
}

int64_t
kept_clock_seconds(void)
{
	return begun ? ahead + up_seconds() : (int64_t)time(NULL);
}

/* 0, -EPROTO (written by a newer version), or -EBADMSG. */
static int
place_get(struct place *p, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	wire_get_init(&r, data, len);
	version = wire_get_version(&r, VERSION);
	if (version < 0)
		return version;
	wire_get_text(&r, p->boot, sizeof(p->boot));
	p->up = wire_get_i64(&r);
	p->wall = wire_get_i64(&r);
	p->seconds = wire_get_i64(&r);
	return wire_get_end(&r);
}

int
kept_clock_start(struct stepd *s)
{
	struct place last, now = {.up = up_seconds(), .wall = (int64_t)time(NULL)};
	void *data;
	size_t len;
	int64_t since;
	int error = store_get(s->store, STORE_META, key, sizeof(key) - 1, &data, &len);

	if (error != 0 && error != -ENOENT)
		return error;
	boot_id_read(now.boot, "");
	now.seconds = now.wall;
	if (error == 0)
		error = place_get(&last, data, len);
	if (error == 0) {
		bool same = now.boot[0] != '\0' && strcmp(now.boot, last.boot) == 0;

		since = same ? now.up - last.up : now.wall - last.wall;
		now.seconds = last.seconds + (since > 0 ? since : 0);
	} else if (error != -ENOENT) {
		log_error("the clock of what is kept cannot be read (%s); it is left as it is",
		    strerror(-error));
	}
	free(data);
	left_alone = error == -EPROTO;
	ahead = now.seconds - now.up;
	begun = true;
	kept_clock_keep(s);
	return 0;
}

void
kept_clock_keep(struct stepd *s)
{
	struct store_write write = {STORE_META, key, sizeof(key) - 1, NULL, 0};
	uint8_t packed[RECORD_MAX];
	char boot[BOOT_ID];
	struct wire_put w;
	long len;

	if (left_alone)
		return;
	boot_id_read(boot, "");
	wire_put_init(&w, packed, sizeof(packed));
	wire_put_u8(&w, VERSION);
	wire_put_string(&w, boot);
	wire_put_i64(&w, up_seconds());
	wire_put_i64(&w, (int64_t)time(NULL));
	wire_put_i64(&w, kept_clock_seconds());
	len = wire_put_end(&w);
	write.data = packed;
	write.len = len < 0 ? 0 : (size_t)len;
	if (len < 0 || store_commit(s->store, &write, 1, NULL, NULL) != 0)
		log_warning("the clock of what is kept was not written");
}
