/*
 * What stepd and a worker say to each other, whole: one list. A message is one SEQPACKET datagram:
 * a header (type, request) and a body of wire fields in the order of its struct below, with at most
 * one file descriptor beside it.
 *
 * stepd asks (TO_WORKER), the worker answers with exactly one message for each request, carrying
 * its number: the answer's own type, or MSG_FAILED. Requests are answered in order. READY and
 * LAST_WORDS answer nothing (request 0). A message that does not decode ends the worker that sent
 * it.
 */
#ifndef IPC_MESSAGE_H
#define IPC_MESSAGE_H

#include <stdint.h>

#include "ipc/wire.h"

enum { MESSAGE_MAX = 64 * 1024 }; /* bytes of a datagram, header included */

/* Bytes of the blobs that a worker answers with; stepd takes no larger ones. */
enum {
	RENDERED_MAX = 1 << 30, /* 64 MiB of text, a token for each of its bytes, and more */
	GENERATED_MAX = 16 << 20,
	EVALUATED_MAX = 1 << 30, /* some 200 bytes for each of a million ids */
	FAILED_MAX = 2 << 20,	 /* FAULTS_SIZE_MAX, and more */
};

/* X(NAME, number, fd that travels with it) */
#define MESSAGE_LIST(X)                                                                            \
	/* worker -> stepd, once, when it can take requests */                                     \
	X(READY, 1, "none")                                                                        \
	/* stepd -> worker */                                                                      \
	X(OPEN, 2, "none")				      /* struct message_open */            \
	X(LOAD, 3, "artifact, sealed or read-only")	      /* struct message_artifact */        \
	X(RENDER, 4, "body of datums:render, sealed")	      /* no fields */                      \
	X(DATUMS, 5, "datums of an earlier RENDERED, sealed") /* no fields */                      \
	X(TRAIN, 6, "datum ids, sealed: u32 count, then wire strings") /* struct message_train */  \
	X(SAVE, 7, "empty file open for writing")	   /* struct message_artifact */           \
	X(GENERATE, 8, "body of samples:generate, sealed") /* no fields */                         \
	X(CLOSE, 9, "none")				   /* no fields; the worker exits 0 */     \
	X(EVALUATE, 10, "datum ids, as TRAIN has them")	   /* no fields */                         \
	X(VERIFY, 11, "artifact, sealed or read-only")	   /* struct message_artifact */           \
	/* worker -> stepd */                                                                      \
	X(OPENED, 32, "none") /* struct message_opened */                                          \
	X(LOADED, 33, "none") /* struct message_loaded */                                          \
	X(RENDERED, 34, "u64 length of JSON, JSON answer, datums; sealed") /* no fields */         \
	X(DATUMS_KEPT, 35, "none")					   /* no fields */         \
	X(TRAINED, 36, "none")				  /* struct message_trained */             \
	X(SAVED, 37, "none")				  /* struct message_saved */               \
	X(GENERATED, 38, "JSON answer, sealed")		  /* no fields */                          \
	X(EVALUATED, 39, "JSON answer, sealed")		  /* no fields */                          \
	X(VERIFIED, 40, "none")				  /* struct message_verified */            \
	X(FAILED, 62, "none, or the JSON detail, sealed") /* struct message_failed */              \
	X(LAST_WORDS, 63, "none")			  /* struct message_last_words */

#define MESSAGE_ENUM(name, number, fd) MSG_##name = number,
enum message_type { MESSAGE_LIST(MESSAGE_ENUM) };
#undef MESSAGE_ENUM

enum artifact_kind { ARTIFACT_STATE = 1, ARTIFACT_SAMPLING = 2 };

struct message_ready {
	uint32_t protocol;  /* MESSAGE_PROTOCOL */
	const char *build;  /* version of the worker */
	const char *device; /* "cpu", or a device's name */
};
enum { MESSAGE_PROTOCOL = 6 };

/* Strings are views: into the sender's memory on the way out, into the datagram on the way in. */
struct message_open {
	const char *session_id;
	const char *base_model;	    /* as the client named it */
	const char *model_revision; /* "" = null */
	const char *model_path;	    /* folder or GGUF file */
	uint32_t lora_rank;
	double lora_alpha; /* 0 = 2 * rank */
	double lora_dropout;
	const char *target_modules; /* "all-linear", or module names joined by commas */
	uint64_t seed;
	uint64_t maximum_datum_tokens; /* 0 = no limit */
	double weight_decay, beta1, beta2, epsilon;
	double max_grad_norm;  /* 0 = no clipping */
	const char *compute;   /* "auto", "f32", "bf16" */
	uint32_t threads;      /* 0 = as many as may run */
	uint64_t micro_batch;  /* tokens that requests are split by; 0 = the worker chooses */
	uint64_t memory_limit; /* bytes the worker is held to; 0 = none */
};

struct message_opened {
	const char *compute; /* what "auto" became: "f32" or "bf16" */
	const char *device;
	uint64_t adapter_parameters, base_parameters;
	uint32_t adapted_modules;
	const char *sandbox;  /* what of it holds, for the log */
	uint64_t micro_batch; /* tokens that requests are split by */
};

struct message_artifact {
	uint32_t kind; /* enum artifact_kind */
};

struct message_loaded {
	uint64_t step;
	uint64_t tokens_seen;
	const char *compute;  /* what the session goes on with: "auto" follows the state */
	uint64_t micro_batch; /* tokens that requests are split by, from now on */
};

struct message_train {
	double learning_rate;
	uint64_t step; /* the session's step before; the worker refuses another */
};

struct message_trained {
	double loss, gradient_norm;
	uint64_t input_tokens, supervised_tokens;
	uint64_t step; /* after */
};

struct message_saved {
	uint64_t size_bytes;
	uint64_t step;
	const char *sha256; /* 64 hex digits, over the bytes written */
};

/* An artifact of this session, every number of it finite. */
struct message_verified {
	uint64_t step; /* of a state; else 0 */
	uint64_t tensors, elements;
};

/* A refusal that changed nothing. With an fd, `detail` is empty and the fd holds the JSON of the
   answer's "detail" (a list of validation errors). */
struct message_failed {
	uint32_t status;    /* HTTP status */
	const char *detail; /* one public sentence */
};

struct message_last_words {
	const char *class; /* of operations.md 19: "device_oom", "device_lost", "sandbox", ... */
	const char *text;
};

/* The name of a type, or NULL. */
const char *message_name(unsigned type);

/* Mirrored coders of each body. get_: 0 or -EBADMSG; views into the datagram. */
#define MESSAGE_BODY_LIST(X)                                                                       \
	X(ready)                                                                                   \
	X(open)                                                                                    \
	X(opened)                                                                                  \
	X(artifact) X(loaded) X(train) X(trained) X(saved) X(verified) X(failed) X(last_words)
#define MESSAGE_CODERS(name)                                                                       \
	void message_put_##name(struct wire_put *w, const struct message_##name *m);               \
	int message_get_##name(struct wire_get *r, struct message_##name *m);
MESSAGE_BODY_LIST(MESSAGE_CODERS)
#undef MESSAGE_CODERS

#endif
