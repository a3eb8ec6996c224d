/*
 * What is kept of a session over a restart: its settings, how far it is and what was saved. One
 * record of the store's table `sessions`, packed field by field behind a version byte. No URL, no
 * token and no training text is in it.
 */
#ifndef SUPERVISOR_SESSION_SESSION_RECORD_H
#define SUPERVISOR_SESSION_SESSION_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum {
	SESSION_ID_SIZE = 33,	   /* 32 hex digits */
	BASE_MODEL_SIZE = 2049,	   /* 512 code points */
	MODULES_SIZE = 4096,	   /* names joined by commas */
	RECENT_LOSSES = 8,	   /* of the last steps */
	SESSION_RECORD_MAX = 8192, /* bytes, packed */
	/* 1: nothing behind changed_at; 2: no threads; 3: no kind; 4: no micro_batch */
	SESSION_RECORD_VERSION = 5,
};

/* What becomes of a session when stepd is started again. */
enum session_fate {
	FATE_NEEDS_RESTORE = 1, /* was given up: tried again where a device is free */
	FATE_CLOSED = 2,
	FATE_OPEN = 3, /* is brought back when stepd is started again */
};

/* An artifact that an upload holds. */
struct saved_artifact {
	uint64_t step, size; /* size 0: not known */
	char sha256[65];     /* "" = there is none */
};

struct session_record {
	char id[SESSION_ID_SIZE];
	uint8_t fate;	 /* enum session_fate */
	char reason[64]; /* why it needs to be restored, "" = not told */
	/* settings */
	char base_model[BASE_MODEL_SIZE];
	char model_revision[41]; /* "" = null */
	char target_modules[MODULES_SIZE];
	uint32_t lora_rank, seed;
	uint64_t maximum_datum_tokens;
	double lora_alpha, lora_dropout;
	double weight_decay, beta1, beta2, epsilon, max_grad_norm;
	char compute[16], device[64];
	/* progress */
	uint64_t step, tokens_seen;
	double losses[RECENT_LOSSES]; /* newest last */
	uint32_t loss_count;
	/* the newest artifact that an upload holds */
	uint64_t saved_step;
	uint8_t saved_kind; /* enum artifact_kind, 0 = none */
	char saved_sha256[65];
	int64_t opened_at, changed_at;	/* Unix seconds, for showing */
	struct saved_artifact saved[2]; /* the newest of each kind: [enum artifact_kind - 1] */
	/* the newest of them that was downloaded again and found right */
	uint64_t verified_step;
	uint8_t verified_kind; /* 0 = none */
	char verified_sha256[65];
	uint32_t threads; /* of its workers: other ones round otherwise; 0: not known */
	uint8_t kind;	  /* enum slot_kind: where it trains */
	/* Tokens that its requests are split by: other micro-batches round otherwise; 0: not known
	 */
	uint64_t micro_batch;
};

/* Packs into storage of SESSION_RECORD_MAX bytes: the length, or -EMSGSIZE. */
long session_record_put(const struct session_record *record, void *storage);
/* 0, -EPROTO (written by a newer version), or -EBADMSG. */
int session_record_get(struct session_record *record, const void *data, size_t len);
/* An upload holds this artifact. */
void session_record_set_saved(
    struct session_record *r, uint8_t kind, uint64_t step, uint64_t size, const char sha256[65]);
/* Appends a loss, dropping the oldest. */
void session_record_add_loss(struct session_record *record, double loss);

#endif
