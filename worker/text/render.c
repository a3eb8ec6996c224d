#include "worker/text/render.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "worker/text/bytes.h"

int
datum_border(const struct token *tokens, size_t count, size_t prefix_end, uint64_t limit,
    size_t *context, size_t *dropped)
{
	size_t first = 0;

	/* Supervised tokens are the tail: offsets never go back over the border. */
	while (first < count && tokens[first].start < prefix_end)
		first++;
	*context = first;
	*dropped = limit != 0 && count > limit ? count - (size_t)limit : 0;
	return *dropped > first ? -1 : 0;
}

void
datum_fini(struct datum *d)
{
	free(d->ids); /* and what comes after them: one block */
	memset(d, 0, sizeof(*d));
}

/* Session, example, tokens and labels, each with its length before it. */
static void
identify(struct datum *d, const char *session_id, const char *example_id)
{
	unsigned char digest[32];
	const char *names[] = {session_id, example_id};
	crypto_generichash_state state;
	uint64_t len;

	crypto_generichash_init(&state, NULL, 0, sizeof(digest));
	for (int i = 0; i < 2; i++) {
		len = strlen(names[i]);
		crypto_generichash_update(&state, (const unsigned char *)&len, sizeof(len));
		crypto_generichash_update(&state, (const unsigned char *)names[i], len);
	}
	len = d->length;
	crypto_generichash_update(&state, (const unsigned char *)&len, sizeof(len));
	crypto_generichash_update(
	    &state, (const unsigned char *)d->ids, d->length * sizeof(*d->ids));
	crypto_generichash_update(&state, d->supervised, d->length);
	crypto_generichash_final(&state, digest, sizeof(digest));
	sodium_bin2hex(d->id, sizeof(d->id), digest, sizeof(digest));
}

static int
make_datum(struct datum *out, const struct token *tokens, size_t count, size_t context,
    struct refusal *refusal)
{
	out->ids = malloc(count * (sizeof(*out->ids) + 1) + 1);
	if (out->ids == NULL)
		return refuse_memory(refusal);
	out->supervised = (uint8_t *)(out->ids + count);
	out->length = (uint32_t)count;
	out->supervised_count = (uint32_t)(count - context);
	for (size_t i = 0; i < count; i++) {
		out->ids[i] = tokens[i].id;
		out->supervised[i] = i >= context;
	}
	return 0;
}

static int
render_text(const struct renderer *r, struct json messages, size_t count, bool generation,
    const char *example_id, char **text, size_t *len, struct refusal *refusal)
{
	struct refusal why;

	if (chat_template_render(
		r->template, messages, count, generation, r->variables, text, len, &why) == 0)
		return 0;
	return refuse(
	    refusal, why.status, "the model chat template refused %s: %s", example_id, why.text);
}

/* The tokens of full, cut at the border. */
static int
tokens_to_datum(struct datum *out, const struct renderer *r, const char *example_id,
    const char *full, size_t full_len, size_t prefix_len, struct refusal *refusal)
{
	struct token *tokens = NULL;
	size_t count, context, dropped;
	int rc, kept;

	if (tokenizer_encode(r->tokenizer, full, full_len, &tokens, &count, refusal) != 0)
		return -1;
	kept = datum_border(tokens, count, prefix_len, r->maximum_datum_tokens, &context, &dropped);
	if (context == count)
		rc = refuse(
		    refusal, 422, "the rendered target of %s has no supervised token", example_id);
	else if (kept != 0)
		rc = refuse(refusal, 422,
		    "maximum_datum_tokens cannot retain the complete supervised target for %s",
		    example_id);
	else
		rc = make_datum(out, tokens + dropped, count - dropped, context - dropped, refusal);
	free(tokens);
	if (rc == 0)
		identify(out, r->session_id, example_id);
	return rc;
}

int
datum_render(struct datum *out, const struct renderer *r, const char *example_id,
    struct json messages, struct refusal *refusal)
{
	size_t count = json_count(messages), full_len, prefix_len;
	char *full = NULL, *prefix = NULL;
	int rc = -1;

	memset(out, 0, sizeof(*out));
	if (render_text(r, messages, count, false, example_id, &full, &full_len, refusal) != 0 ||
	    render_text(r, messages, count == 0 ? 0 : count - 1, true, example_id, &prefix,
		&prefix_len, refusal) != 0)
		goto out;
	if (full_len < prefix_len || memcmp(full, prefix, prefix_len) != 0) {
		refuse(refusal, 422,
		    "the model chat template did not preserve the target boundary for %s",
		    example_id);
		goto out;
	}
	rc = tokens_to_datum(out, r, example_id, full, full_len, prefix_len, refusal);
out:
	free(full);
	free(prefix);
	return rc;
}
