/*
 * A first byte that chooses, and any bytes as what the store keeps: refused, or packed again into
 * the very same bytes. The store is our own, but its disk may not be.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/api/operation_record.h"
#include "supervisor/session/anchor.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/kept_answer.h"
#include "supervisor/session/session_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
refused(int error, const uint8_t *data, size_t size, uint8_t version)
{
	if (error != (size > 0 && data[0] > version ? -EPROTO : -EBADMSG))
		abort();
}

static void
same_bytes(const void *packed, long len, const uint8_t *data, size_t size)
{
	if (len != (long)size || memcmp(packed, data, size) != 0)
		abort();
}

static void
check_step(const uint8_t *data, size_t size)
{
	struct journal_step step;
	int error = journal_step_get(&step, data, size);
	size_t room;
	void *packed;

	if (error != 0) {
		refused(error, data, size, JOURNAL_VERSION);
		return;
	}
	room = step.ids_len + JOURNAL_STEP_MAX;
	packed = malloc(room);
	same_bytes(packed, journal_step_put(&step, packed, room), data, size);
	free(packed);
}

static void
check_answer(const uint8_t *data, size_t size)
{
	uint8_t packed[KEPT_ANSWER_MAX];
	struct kept_answer answer;
	int error = kept_answer_get(&answer, data, size);

	if (error != 0)
		refused(error, data, size, KEPT_VERSION);
	else
		same_bytes(packed, kept_answer_put(&answer, packed), data, size);
}

static void
check_session(const uint8_t *data, size_t size)
{
	uint8_t packed[SESSION_RECORD_MAX];
	struct session_record record;
	int error = session_record_get(&record, data, size);
	long len;

	if (error != 0) {
		refused(error, data, size, SESSION_RECORD_VERSION);
		return;
	}
	len = session_record_put(&record, packed);
	if (data[0] == SESSION_RECORD_VERSION) {
		same_bytes(packed, len, data, size);
	} else { /* an older one is packed as a new one, which says the same */
		struct session_record again;

		if (len < 0 || session_record_get(&again, packed, (size_t)len) != 0 ||
		    memcmp(&again, &record, sizeof(record)) != 0)
			abort();
	}
}

static void
check_anchor(const uint8_t *data, size_t size)
{
	uint8_t packed[ANCHOR_RECORD_MAX];
	struct anchor anchor;
	int error = anchor_get(&anchor, data, size);

	if (error != 0)
		refused(error, data, size, ANCHOR_VERSION);
	else
		same_bytes(packed, anchor_put(&anchor, packed), data, size);
}

static void
check_operation(const uint8_t *data, size_t size)
{
	struct operation_record record;
	int error = operation_record_get(&record, data, size);
	size_t room;
	void *packed;

	if (error != 0) {
		refused(error, data, size, OPERATION_RECORD_VERSION);
		return;
	}
	room = operation_record_size(&record);
	packed = malloc(room);
	same_bytes(packed, operation_record_put(&record, packed, room), data, size);
	free(packed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const uint8_t *, size_t) = {
	    check_step, check_answer, check_session, check_anchor, check_operation};

	if (size > 0)
		checks[data[0] % (sizeof(checks) / sizeof(*checks))](data + 1, size - 1);
	return 0;
}
