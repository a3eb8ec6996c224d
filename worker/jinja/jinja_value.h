/*
 * The values of the template language: Python's, as far as templates can see them. A value is 16
 * bytes and passed by copy; what it points to lives in an arena (or, for strings, in the document
 * that was given) and never changes, but for namespaces, iterators and their like.
 */
#ifndef WORKER_JINJA_JINJA_VALUE_H
#define WORKER_JINJA_JINJA_VALUE_H

#include "worker/jinja/jinja.h"

/* X(name, name of the Python type) */
/* clang-format off */
#define JINJA_TYPE_LIST(X) \
	X(MISSING, "missing") /* an empty slot or an argument not given: never seen by templates */ \
	X(UNDEFINED, "Undefined") X(NONE, "NoneType") X(BOOL, "bool") X(INT, "int") \
	X(BIG, "int") /* outside int64 */ X(FLOAT, "float") X(STRING, "str") X(LIST, "list") X(TUPLE, "tuple") \
	X(DICT, "dict") X(RANGE, "range") X(KEYS, "dict_keys") X(VALUES, "dict_values") \
	X(ITEMS, "dict_items") X(ITERATOR, "generator") X(NAMESPACE, "Namespace") \
	X(MACRO, "Macro") X(FUNCTION, "function") X(METHOD, "builtin_function_or_method") \
	X(LOOP, "LoopContext") X(CYCLER, "Cycler") X(JOINER, "Joiner")
/* clang-format on */
#define JINJA_TYPE_ENUM(name, python) JINJA_##name,
enum jinja_type { JINJA_TYPE_LIST(JINJA_TYPE_ENUM) };
#undef JINJA_TYPE_ENUM

enum jinja_flag {
	JINJA_MARKUP = 1, /* a string that counts as escaped: markupsafe.Markup */
	JINJA_GROWS = 2,  /* a string that starts a struct jinja_text, so that + can append to it */
	JINJA_GROUP = 4,  /* a tuple of groupby: .grouper and .list */
};

struct jinja_value {
	uint8_t type;  /* enum jinja_type */
	uint8_t flags; /* enum jinja_flag */
	uint32_t len;  /* bytes of a string */
	union {
		bool boolean;
		int64_t integer;
		double number;
		const char *text; /* UTF-8, not NUL-terminated */
		const struct jinja_big *big;
		const struct jinja_list *list; /* LIST, TUPLE */
		struct jinja_dict *dict;       /* DICT, KEYS, VALUES, ITEMS, NAMESPACE */
		const struct jinja_range *range;
		struct jinja_iterator *iterator;
		const struct jinja_undefined *undefined; /* NULL: without a story */
		struct jinja_macro *macro;
		const struct jinja_builtin *function;
		const struct jinja_method *method;
		struct jinja_loop *loop;
		struct jinja_cycler *cycler;
		struct jinja_joiner *joiner;
	};
};

/* Items are shared between lists: one that ends where `used` ends may be appended to in place. */
struct jinja_items {
	size_t used, size;
	struct jinja_value at[];
};
struct jinja_list {
	size_t count;
	const struct jinja_value *at;
	struct jinja_items *items; /* NULL: cannot be appended to */
};
struct jinja_text {
	size_t used, size;
	char at[];
};
struct jinja_range {
	int64_t start, stop, step;
	size_t count;
};
/* Why a value is undefined: a hint, or the object that lacks the name (an integer or a string). */
struct jinja_undefined {
	const char *hint;
	bool has_object, unsafe;
	struct jinja_value object, name;
};
struct jinja_cycler {
	const struct jinja_list *items;
	size_t at;
};
struct jinja_joiner {
	struct jinja_value separator;
	bool used;
};

/* Positional and keyword arguments of a call. */
struct jinja_keyword {
	struct jinja_value name, value;
};
struct jinja_args {
	size_t count, keywords;
	const struct jinja_value *at;
	const struct jinja_keyword *keyword;
};

#define JINJA_VALUE(t, field, v) ((struct jinja_value){.type = JINJA_##t, .field = (v)})

static inline struct jinja_value
jinja_none(void)
{
	return (struct jinja_value){.type = JINJA_NONE};
}
static inline struct jinja_value
jinja_bool(bool v)
{
	return JINJA_VALUE(BOOL, boolean, v);
}
static inline struct jinja_value
jinja_int(int64_t v)
{
	return JINJA_VALUE(INT, integer, v);
}
static inline struct jinja_value
jinja_float(double v)
{
	return JINJA_VALUE(FLOAT, number, v);
}
/* A view; len is below JINJA_MEMORY_MAX or JINJA_OUTPUT_MAX by the way it came. */
static inline struct jinja_value
jinja_string(const char *text, size_t len)
{
	return (struct jinja_value){.type = JINJA_STRING, .len = (uint32_t)len, .text = text};
}

/* A string that lives as long as the arena. */
struct jinja_value jinja_string_copy(struct jinja *j, const char *text, size_t len);
/* What was put out since `from` becomes a string and leaves the output. */
struct jinja_value jinja_capture(struct jinja *j, size_t from);
/* A list with room for `size` items, to be filled by jinja_append before anyone sees it. */
struct jinja_list *jinja_list_new(struct jinja *j, size_t size);
void jinja_append(struct jinja *j, struct jinja_list *list, struct jinja_value v);
struct jinja_value jinja_undefined_name(struct jinja *j, struct jinja_value name);
struct jinja_value jinja_undefined_hint(struct jinja *j, const char *hint);
struct jinja_value jinja_undefined_of(
    struct jinja *j, struct jinja_value object, struct jinja_value name, bool unsafe);
/* Fails with what Python would say of using it. */
_Noreturn void jinja_fail_undefined(struct jinja *j, struct jinja_value v);
_Noreturn void jinja_fail_type(struct jinja *j, const char *format, struct jinja_value v);

const char *jinja_type_name(struct jinja_value v);
bool jinja_truth(struct jinja_value v);
bool jinja_string_is(struct jinja_value v, const char *text);
/* INT, BIG or BOOL; those or FLOAT. */
bool jinja_is_integer(struct jinja_value v);
bool jinja_is_number(struct jinja_value v);
bool jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b);
/* Python's a < b; fails where Python has no order. */
bool jinja_less(struct jinja *j, struct jinja_value a, struct jinja_value b);
/* An argument that must be an integer and fits; `what` names it in the refusal. */
int64_t jinja_to_int64(struct jinja *j, struct jinja_value v, const char *what);

#endif
