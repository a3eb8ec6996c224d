#include "worker/driver_nodes.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/driver_parts.h"

/* The rest of the line of a small file that begins with `name`. */
static bool
read_field(const char *path, const char *name, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[256];
	bool found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
		size_t len = strlen(name);
		char *value = line + len;

		if (strncmp(line, name, len) != 0)
			continue;
		value += strspn(value, ": \t");
		value[strcspn(value, "\n")] = '\0';
		snprintf(out, size, "%s", value);
		found = true;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

static bool
read_number(const char *path, const char *name, int *out)
{
	char text[32], *end;
	long value;

	if (!read_field(path, name, text, sizeof(text)))
		return false;
	value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || value < 0 || value > INT_MAX)
		return false;
	*out = (int)value;
	return true;
}

static bool
same_text(const char *a, const char *b)
{
	return strcasecmp(a, b) == 0;
}

/* A part of a GPU is on the GPU that is named by its place; a whole one may be named by its UUID.
 */
static bool
is_chosen(const char *file, const char *bus, const struct driver_choice *choice)
{
	char uuid[80];

	if (choice->uuid == NULL)
		return true;
	if (choice->bus != NULL)
		return same_text(bus, choice->bus);
	return read_field(file, "GPU UUID", uuid, sizeof(uuid)) && same_text(uuid, choice->uuid);
}

/* The chosen of the folder, a folder each. How many there are, -1: there is no such folder. */
static int
find_gpus(struct driver_nodes *out, const char *root, const struct driver_choice *choice)
{
	char folder[PATH_MAX - 512], file[PATH_MAX];
	struct dirent *entry;
	int all = 0;
	DIR *d;

	snprintf(folder, sizeof(folder), "%s/proc/driver/nvidia/gpus", root);
	d = opendir(folder);
	if (d == NULL)
		return -1;
	while ((entry = readdir(d)) != NULL && out->count < DRIVER_GPUS_MAX) {
		struct driver_gpu *gpu = &out->gpus[out->count];

		if (!isxdigit((unsigned char)entry->d_name[0]) ||
		    strlen(entry->d_name) >= sizeof(gpu->bus))
			continue;
		all++;
		snprintf(file, sizeof(file), "%s/%s/information", folder, entry->d_name);
		if (!is_chosen(file, entry->d_name, choice) ||
		    !read_number(file, "Device Minor", &gpu->minor))
			continue;
		snprintf(gpu->bus, sizeof(gpu->bus), "%s", entry->d_name);
		out->count++;
	}
	closedir(d);
	return all;
}

/* The numbers behind `prefix` in the names of a folder below root, `most` of them. How many. */
static size_t
find_numbers(int *out, size_t most, const char *root, const char *folder, const char *prefix)
{
	char path[PATH_MAX];
	struct dirent *entry;
	size_t count = 0, len = strlen(prefix);
	DIR *d;

	snprintf(path, sizeof(path), "%s%s", root, folder);
	d = opendir(path);
	while (d != NULL && count < most && (entry = readdir(d)) != NULL) {
		char rest;

		if (strncmp(entry->d_name, prefix, len) == 0 &&
		    sscanf(entry->d_name + len, "%d%c", &out[count], &rest) == 1)
			count++;
	}
	if (d != NULL)
		closedir(d);
	return count;
}

/* Where the driver's files are not to be seen: the nodes themselves, as long as there is one. */
static size_t
find_devices(struct driver_nodes *out, const char *root)
{
	int minors[DRIVER_GPUS_MAX];

	out->count = find_numbers(minors, DRIVER_GPUS_MAX, root, "/dev", "nvidia");
	for (size_t i = 0; i < out->count; i++)
		out->gpus[i].minor = minors[i];
	return out->count;
}

/* Who may use a part shows it by opening the nodes of the part, and of the share of it. */
static bool
find_part(struct driver_nodes *out, const char *root, const struct driver_part *part)
{
	char path[PATH_MAX];
	int at;

	at = snprintf(path, sizeof(path), "%s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", root,
	    part->minor, part->instance);
	if (at < 0 || (size_t)at + 64 > sizeof(path))
		return false;
	snprintf(path + at, 64, "/access");
	if (!read_number(path, "DeviceFileMinor", &out->caps[0]))
		return false;
	snprintf(path + at, 64, "/ci%d/access", part->share);
	if (!read_number(path, "DeviceFileMinor", &out->caps[1]))
		return false;
	out->cap_count = 2;
	return true;
}

int
driver_nodes_find(struct driver_nodes *out, const char *root, const struct driver_choice *choice,
    struct refusal *r)
{
	bool is_part = choice->uuid != NULL && strncmp(choice->uuid, "MIG-", 4) == 0;
	struct driver_choice whole = *choice;
	struct driver_part part;
	char bus[DRIVER_BUS_MAX];

	memset(out, 0, sizeof(*out));
	if (is_part) {
		if (driver_part_find(&part, choice->uuid, r) != 0)
			return -1;
		snprintf(bus, sizeof(bus), "%s", part.bus);
		whole.bus = bus;
	}
	/* Neither: there is no driver, or an emulated one. */
	if (find_gpus(out, root, &whole) < 0 && find_devices(out, root) == 0)
		return 0;
	if (choice->uuid == NULL) {
		/* A probe looks at all that there is. */
		out->cap_count = find_numbers(
		    out->caps, DRIVER_CAPS_MAX, root, "/dev/nvidia-caps", "nvidia-cap");
		return 0;
	}
	if (out->count != 1)
		return refuse(
		    r, 503, "accelerator unavailable: which /dev/nvidiaN is %s?", choice->uuid);
	if (is_part && !find_part(out, root, &part))
		return refuse(r, 503, "accelerator unavailable: no access to %s", choice->uuid);
	return 0;
}

bool
driver_nodes_is_part(const char *root, const char *uuid, const char *bus)
{
	char file[PATH_MAX], whole[80];
	int n =
	    snprintf(file, sizeof(file), "%s/proc/driver/nvidia/gpus/%s/information", root, bus);

	if (n < 0 || n >= (int)sizeof(file) || !read_field(file, "GPU UUID", whole, sizeof(whole)))
		return false;
	/* Of one that is asleep the driver tells question marks. */
	return strncmp(whole, "GPU-", 4) == 0 && strchr(whole, '?') == NULL &&
	       !same_text(whole, uuid);
}
