/*
 * The state of one compilation or one rendering of a template: an arena for everything it makes,
 * the text it puts out, what it may still spend, and the way out when it fails.
 *
 * A failure, of whatever depth, is a longjmp to the one caller that set `failed`: nothing made by
 * the interpreter lives outside the arena and the output, so there is nothing to unwind, and no
 * value is ever computed from a failed one. Template source and conversations are both hostile:
 * every loop pays steps, every byte is counted, every recursion is counted.
 */
#ifndef WORKER_JINJA_JINJA_H
#define WORKER_JINJA_JINJA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct json_doc;

enum jinja_error {
	JINJA_SYNTAX,  /* the source is no template, or asks for what is not supported */
	JINJA_RAISED,  /* the template's own raise_exception: message is its text */
	JINJA_RUNTIME, /* an operation that Python refuses */
	JINJA_LIMIT,   /* time, memory, output or nesting ran out */
};

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { JINJA_STEPS_MAX = 300000, JINJA_MEMORY_MAX = 64 << 20, JINJA_OUTPUT_MAX = 16 << 20 };
#else
enum {
	JINJA_STEPS_MAX = 30000000,   /* nodes evaluated, or blocks of JINJA_STEP_BYTES handled */
	JINJA_MEMORY_MAX = 512 << 20, /* bytes of an arena */
	JINJA_OUTPUT_MAX = 128 << 20, /* bytes put out */
};
#endif
enum {
	JINJA_STEP_BYTES = 32,
	JINJA_DEPTH_MAX = 1500, /* recursion of the interpreter, on the C stack */
	JINJA_MACRO_MAX = 195,	/* macro calls inside each other: what Python's own limit allows */
	JINJA_NEST_MAX = 200,	/* blocks and expressions inside each other in the source */
};

struct jinja {
	jmp_buf failed;
	enum jinja_error error;
	char message[900]; /* of the failure, NUL-terminated UTF-8 */
	uint32_t line;	   /* in the source, of what runs now */
	struct jinja_chunk *chunks;
	char *tip, *end; /* free bytes of the newest chunk */
	size_t memory;	 /* bytes in chunks */
	uint64_t steps;	 /* spent */
	unsigned depth, macros;
	struct json_doc **held; /* documents that values point into */
	size_t held_count, held_size;
	char *out; /* malloc'd */
	size_t out_len, out_size;
	bool autoescape;
	bool folding; /* inside an output of constants, which Jinja evaluates when it compiles */
	const struct jinja_dict *context; /* the variables of a rendering */
	const void *block;		  /* struct jinja_value: what a filter block put out */
	struct tm now;			  /* what strftime_now tells */
	unsigned now_microsecond;
};

void jinja_init(struct jinja *j);
/* Frees the arena and the output; safe after a failure. */
void jinja_fini(struct jinja *j);
/* Zeroed memory of the arena, aligned for any type. Never NULL: fails the run instead. */
void *jinja_alloc(struct jinja *j, size_t size);
void *jinja_alloc_array(struct jinja *j, size_t count, size_t size);
_Noreturn void jinja_fail(struct jinja *j, enum jinja_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Pays for one node plus `bytes` of text or memory handled. */
void jinja_pay(struct jinja *j, size_t bytes);
/* Around every recursive function. */
void jinja_enter(struct jinja *j);
void jinja_leave(struct jinja *j);
/* Frees a document when the run ends, also if this fails. */
void jinja_hold(struct jinja *j, struct json_doc *doc);
/* Appends to the output. text may not point into it. */
void jinja_put(struct jinja *j, const void *text, size_t len);

#endif
