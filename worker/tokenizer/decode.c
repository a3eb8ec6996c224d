#include "worker/tokenizer/decode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/utf8.h"
#include "worker/tokenizer/chars.h"

static const char replacement[] = "\xef\xbf\xbd";

static void
end_piece(struct decoding *d)
{
	if (d->failed || !grow_array(&d->end, &d->size, d->count + 1, sizeof(*d->end))) {
		d->failed = true;
		return;
	}
	d->end[d->count++] = d->text.len;
}

void
decoding_add(struct decoding *d, const char *text, size_t len)
{
	bytes_put(&d->text, text, len);
	end_piece(d);
}

void
decoding_fini(struct decoding *d)
{
	bytes_fini(&d->text);
	free(d->end);
	*d = (struct decoding){0};
}

/* How many bytes at s, ill-formed UTF-8, are one maximal subpart (Unicode, table 3-7). */
static size_t
bad_length(const unsigned char *s, size_t len)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t want = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1, n = 1;

	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 1;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (; n < len && n <= want && s[n] >= low && s[n] <= high; n++) {
		low = 0x80;
		high = 0xbf;
	}
	return n;
}

void
decode_lossy(struct bytes *out, const char *data, size_t len)
{
	while (len > 0) {
		size_t good = utf8_valid_prefix(data, len), bad;

		bytes_put(out, data, good);
		data += good;
		len -= good;
		if (len == 0)
			return;
		bad = bad_length((const unsigned char *)data, len);
		bytes_put(out, replacement, 3);
		data += bad;
		len -= bad;
	}
}

/* The bytes that a piece's glyphs stand for; a piece with another character in it stays. */
static void
put_glyph_bytes(struct bytes *out, const char *text, size_t len)
{
	size_t before = out->len;

	for (size_t i = 0, n; i < len; i += n) {
		int byte = byte_of_glyph(char_at(text + i, &n));
		char c = (char)byte;

		if (byte < 0) {
			out->len = before;
			bytes_put(out, text, len);
			return;
		}
		bytes_put(out, &c, 1);
	}
}

/* "<0x41>" is a byte, or -1. */
static int
fallback_byte(const char *text, size_t len)
{
	char digits[3];

	if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
		return -1;
	if (!isxdigit((unsigned char)text[3]) || !isxdigit((unsigned char)text[4])) {
		/* Rust's parser takes a sign. */
		if (text[3] != '+' || !isxdigit((unsigned char)text[4]))
			return -1;
		digits[0] = '0';
	} else {
		digits[0] = text[3];
	}
	digits[1] = text[4];
	digits[2] = '\0';
	return (int)strtol(digits, NULL, 16);
}

/* A run of bytes: text if it is UTF-8 as a whole, else as many replacement characters. */
static void
put_byte_run(struct decoding *to, struct bytes *run)
{
	if (run->len == 0)
		return;
	if (utf8_valid_prefix(run->data, run->len) == run->len)
		decoding_add(to, run->data, run->len);
	else
		for (size_t i = 0; i < run->len; i++)
			decoding_add(to, replacement, 3);
	run->len = 0;
}

static void
strip_piece(const struct step *step, struct decoding *to, const char *text, size_t len)
{
	size_t start = 0, end = len, n;

	for (uint32_t i = 0; i < step->strip_start && start < len; i++) {
		if (char_at(text + start, &n) != step->point)
			break;
		start += n;
	}
	for (uint32_t i = 0; i < step->strip_end && end > start; i++) {
		const char *last = char_before(text + end);

		if (char_at(last, &n) != step->point)
			break;
		end = (size_t)(last - text);
	}
	decoding_add(to, text + start, end - start);
}

static int
replace_piece(const struct step *step, struct decoding *to, const char *text, size_t len,
    struct pattern_run *run, struct refusal *r)
{
	struct pattern_scan scan = {.text = text, .len = len};
	size_t done = 0;
	int rc = 0;

	while (len > 0 && (rc = pattern_next(step->pattern, run, &scan, r)) == 1) {
		bytes_put(&to->text, text + done, scan.start - done);
		bytes_put(&to->text, step->text, step->text_len);
		done = scan.end;
	}
	decoding_add(to, text + done, len - done);
	return rc;
}

static void
metaspace_piece(
    const struct step *step, struct decoding *to, const char *text, size_t len, bool first)
{
	for (size_t i = 0, n; i < len; i += n) {
		if (char_at(text + i, &n) != step->point)
			bytes_put(&to->text, text + i, n);
		else if (!first || !step->prefix_space)
			bytes_put(&to->text, " ", 1);
	}
	end_piece(to);
}

static void
suffix_piece(const struct step *step, struct decoding *to, const char *text, size_t len, bool last)
{
	size_t n = step->text_len;

	for (size_t i = 0; i < len;) {
		if (n > 0 && len - i >= n && memcmp(text + i, step->text, n) == 0) {
			bytes_put(&to->text, " ", last ? 0 : 1);
			i += n;
		} else {
			bytes_put(&to->text, text + i++, 1);
		}
	}
	end_piece(to);
}

/* One step over the whole list. `bytes` is working memory. */
static int
run_step(const struct step *step, const struct decoding *from, struct decoding *to,
    struct pattern_run *run, struct bytes *bytes, struct refusal *r)
{
	bytes->len = 0;
	for (size_t i = 0; i < from->count; i++) {
		size_t start = i == 0 ? 0 : from->end[i - 1], len = from->end[i] - start;
		const char *text = from->text.data + start;
		int byte;

		switch (step->kind) {
		case DECODE_BYTE_LEVEL:
			put_glyph_bytes(bytes, text, len);
			break;
		case DECODE_BYTE_FALLBACK:
			byte = fallback_byte(text, len);
			if (byte >= 0) {
				bytes_put(bytes, &(char){(char)byte}, 1);
				break;
			}
			put_byte_run(to, bytes);
			decoding_add(to, text, len);
			break;
		case DECODE_FUSE:
			bytes_put(&to->text, text, len);
			break;
		case DECODE_REPLACE:
			if (replace_piece(step, to, text, len, run, r) != 0)
				return -1;
			break;
		case DECODE_STRIP:
			strip_piece(step, to, text, len);
			break;
		case DECODE_METASPACE:
			metaspace_piece(step, to, text, len, i == 0);
			break;
		case DECODE_SUFFIX:
			suffix_piece(step, to, text, len, i + 1 == from->count);
			break;
		default:
			return refuse(r, 500, "step %d is no decoder", (int)step->kind);
		}
	}
	if (step->kind == DECODE_BYTE_LEVEL)
		decode_lossy(&to->text, bytes->data, bytes->len);
	if (step->kind == DECODE_BYTE_LEVEL || step->kind == DECODE_FUSE)
		end_piece(to);
	put_byte_run(to, step->kind == DECODE_BYTE_FALLBACK ? bytes : &(struct bytes){0});
	return to->failed || to->text.failed || bytes->failed ? refuse_memory(r) : 0;
}

int
decode(const struct steps *steps, struct decoding *d, struct bytes *out, struct refusal *r)
{
	struct decoding next = {0}, now;
	struct bytes bytes = {0};
	struct pattern_run *run = pattern_run_new();
	int rc = 0;

	/* Both blocks exist, also where all that they hold is empty. */
	if (run == NULL || !bytes_reserve(&d->text, 1) || !bytes_reserve(&next.text, 1) ||
	    d->failed)
		rc = refuse_memory(r);
	for (size_t i = 0; steps != NULL && i < steps->count && rc == 0; i++) {
		next.count = 0;
		next.text.len = 0;
		rc = run_step(&steps->list[i], d, &next, run, &bytes, r);
		now = *d;
		*d = next;
		next = now;
	}
	if (rc == 0 && steps == NULL) { /* without a decoder, words are set apart */
		for (size_t i = 0; i < d->count; i++) {
			size_t start = i == 0 ? 0 : d->end[i - 1];

			bytes_put(out, " ", i > 0);
			bytes_put(out, d->text.data + start, d->end[i] - start);
		}
	} else if (rc == 0) {
		bytes_put(out, d->text.data, d->text.len);
	}
	decoding_fini(&next);
	bytes_fini(&bytes);
	pattern_run_free(run);
	return rc == 0 && out->failed ? refuse_memory(r) : rc;
}
