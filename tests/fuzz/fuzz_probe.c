/* Bytes as the answer of a probe: devices that all hold together, and slots of them, or none at
 * all. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/utf8.h"
#include "supervisor/session/slot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool holds)
{
	if (!holds)
		abort();
}

/* It fits a line of the log. */
static void
check_words(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	must(len < size && utf8_valid_prefix(text, len) == len);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];

		must(c >= 0x20 && c != 0x7f && !(c == 0xc2 && next < 0xa0));
	}
}

/* It becomes a value of the environment, and an item of a list in it. */
static void
check_id(const char *text, size_t size, const char *more)
{
	static const char letters[] =
	    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strnlen(text, size);

	must(len < size);
	for (size_t i = 0; i < len; i++)
		must(strchr(letters, text[i]) != NULL || strchr(more, text[i]) != NULL);
}

static void
check_device(const struct device *d)
{
	check_id(d->uuid, sizeof(d->uuid), "-");
	check_id(d->bus, sizeof(d->bus), ":.");
	check_words(d->name, sizeof(d->name));
	check_words(d->capability, sizeof(d->capability));
	check_words(d->error, sizeof(d->error));
	must(d->verified == (d->error[0] == '\0'));
	must(!d->verified ||
	     (d->memory > 0 && d->memory <= INT64_MAX && !d->held &&
		 (strncmp(d->uuid, "GPU-", 4) == 0 || strncmp(d->uuid, "MIG-", 4) == 0)));
}

static void
check_slots(const struct devices *all, const char *wanted)
{
	char unknown[128];
	struct slots slots;

	if (slots_init(&slots, all, wanted, unknown) != 0) {
		must(memchr(unknown, 0, sizeof(unknown)) != NULL);
		return;
	}
	must(slots.count <= SLOTS_MAX);
	for (size_t i = 0; i < slots.count; i++) {
		for (size_t k = 0; k < i; k++)
			must(strcmp(slots.slots[i].device, slots.slots[k].device) != 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct devices nothing;
	char *text = malloc(size + 1);
	struct devices all;
	int rc;

	must(text != NULL);
	memcpy(text, data, size);
	memset(&all, 0x5a, sizeof(all));
	rc = probe_parse(text, size, &all);
	must(rc == 0 || rc == -EBADMSG);
	if (rc != 0)
		must(memcmp(&all, &nothing, sizeof(all)) == 0);
	must(all.count <= DEVICES_MAX);
	check_words(all.error, sizeof(all.error));
	for (size_t i = 0; i < all.count; i++) {
		check_device(&all.at[i]);
		for (size_t k = 0; k < i; k++)
			must(all.at[i].uuid[0] == '\0' ||
			     strcmp(all.at[i].uuid, all.at[k].uuid) != 0);
		if (all.at[i].uuid[0] != '\0')
			check_slots(&all, all.at[i].uuid);
	}
	check_slots(&all, "auto");
	check_slots(&all, "0,1,2");
	free(text);
	return 0;
}
