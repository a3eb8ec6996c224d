#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"

static void
spread_keywords(struct jinja *j, struct jinja_value from, struct jinja_keyword *out, size_t *count)
{
	if (from.type != JINJA_DICT)
		jinja_fail_type(j, "argument after ** must be a mapping, not %s", from);
	for (size_t i = 0; i < from.dict->count; i++) {
		const struct jinja_entry *e = &from.dict->entries[i];

		if (e->key.type != JINJA_STRING)
			jinja_fail(j, JINJA_RUNTIME, "keywords must be strings");
		for (size_t k = 0; k < *count; k++)
			if (jinja_equal(j, out[k].name, e->key))
				jinja_fail(j, JINJA_RUNTIME,
				    "got multiple values for keyword argument '%.*s'",
				    e->key.len > 80 ? 80 : (int)e->key.len, e->key.text);
		out[(*count)++] = (struct jinja_keyword){e->key, e->value};
	}
}

void
jinja_eval_args(struct jinja *j, struct jinja_frame *f, const struct jinja_arguments *from,
    struct jinja_value caller, struct jinja_args *out)
{
	size_t count = from->list.count, keywords = from->keywords.count + 1;
	struct jinja_value spread = {0}, named = {0};
	const struct jinja_list *more = NULL;
	struct jinja_value *at;
	struct jinja_keyword *keyword;

	*out = (struct jinja_args){0};
	if (count == 0 && keywords == 1 && from->dyn_args == NULL && from->dyn_kwargs == NULL &&
	    caller.type == JINJA_MISSING)
		return;
	if (from->dyn_args == NULL && from->dyn_kwargs == NULL) {
		at = jinja_alloc_array(j, count, sizeof(*at));
		for (size_t i = 0; i < count; i++)
			at[i] = jinja_eval(j, f, from->list.at[i]);
	} else {
		struct jinja_list *all = jinja_list_new(j, count);

		for (size_t i = 0; i < count; i++)
			jinja_append(j, all, jinja_eval(j, f, from->list.at[i]));
		if (from->dyn_args != NULL) {
			spread = jinja_eval(j, f, from->dyn_args);
			more = jinja_to_list(j, spread);
		}
		for (size_t i = 0; more != NULL && i < more->count; i++)
			jinja_append(j, all, more->at[i]);
		if (from->dyn_kwargs != NULL)
			named = jinja_eval(j, f, from->dyn_kwargs);
		at = (struct jinja_value *)all->items->at;
		count = all->count;
	}
	if (named.type == JINJA_DICT)
		keywords += named.dict->count;
	keyword = jinja_alloc_array(j, keywords, sizeof(*keyword));
	keywords = 0;
	for (size_t i = 0; i < from->keywords.count; i++)
		keyword[keywords++] =
		    (struct jinja_keyword){from->names[i], jinja_eval(j, f, from->keywords.at[i])};
	if (from->dyn_kwargs != NULL)
		spread_keywords(j, named, keyword, &keywords);
	if (caller.type != JINJA_MISSING)
		keyword[keywords++] = (struct jinja_keyword){jinja_string("caller", 6), caller};
	*out = (struct jinja_args){count, keywords, at, keyword};
}

/* Takes the keyword of that name out of the list, or gives MISSING. */
static struct jinja_value
take(struct jinja_keyword *keyword, size_t *count, struct jinja_value name)
{
	for (size_t i = 0; i < *count; i++) {
		struct jinja_value v = keyword[i].value;

		if (keyword[i].name.len != name.len ||
		    memcmp(keyword[i].name.text, name.text, name.len) != 0)
			continue;
		memmove(keyword + i, keyword + i + 1, (*count - i - 1) * sizeof(*keyword));
		--*count;
		return v;
	}
	return (struct jinja_value){0};
}

static struct jinja_value
extra_keywords(struct jinja *j, const struct jinja_keyword *keyword, size_t count)
{
	struct jinja_dict *d = jinja_dict_new(j, count);

	for (size_t i = 0; i < count; i++)
		jinja_dict_set(j, d, keyword[i].name, keyword[i].value);
	return JINJA_VALUE(DICT, dict, d);
}

static struct jinja_value
extra_positional(struct jinja *j, const struct jinja_args *args, size_t from)
{
	struct jinja_list *list = jinja_list_new(j, args->count);

	for (size_t i = from; i < args->count; i++)
		jinja_append(j, list, args->at[i]);
	return JINJA_VALUE(TUPLE, list, list);
}

static const char *
macro_name(const struct jinja_function *fn, int *len)
{
	*len = fn->name.type == JINJA_STRING ? (int)fn->name.len : 4;
	return fn->name.type == JINJA_STRING ? fn->name.text : "None";
}

/* Macro.__call__ of Jinja: arguments to slots. */
static void
bind_macro(struct jinja *j, const struct jinja_function *fn, struct jinja_frame *f,
    const struct jinja_args *args)
{
	struct jinja_keyword *keyword = jinja_alloc_array(j, args->keywords, sizeof(*keyword));
	size_t keywords = args->keywords;
	int len;
	const char *name = macro_name(fn, &len);

	if (keywords != 0)
		memcpy(keyword, args->keyword, keywords * sizeof(*keyword));
	for (size_t i = 0; i < fn->parameters.count; i++)
		f->slots[fn->parameters.at[i]->ref.slot] =
		    i < args->count ? args->at[i]
				    : take(keyword, &keywords, fn->parameters.at[i]->value);
	if (fn->takes_caller && !fn->explicit_caller) {
		struct jinja_value caller = take(keyword, &keywords, jinja_string("caller", 6));

		f->slots[fn->caller] = caller.type == JINJA_MISSING
					   ? jinja_undefined_hint(j, "No caller defined")
					   : caller;
	}
	if (fn->takes_kwargs)
		f->slots[fn->kwargs] = extra_keywords(j, keyword, keywords);
	else if (keywords != 0)
		jinja_fail(j, JINJA_RUNTIME, "macro '%.*s' takes no keyword argument '%.*s'", len,
		    name, keyword[0].name.len > 80 ? 80 : (int)keyword[0].name.len,
		    keyword[0].name.text);
	if (fn->takes_varargs)
		f->slots[fn->varargs] = extra_positional(j, args, fn->parameters.count);
	else if (args->count > fn->parameters.count)
		jinja_fail(j, JINJA_RUNTIME, "macro '%.*s' takes not more than %zu argument(s)",
		    len, name, fn->parameters.count);
}

static void
set_defaults(struct jinja *j, const struct jinja_function *fn, struct jinja_frame *f)
{
	size_t required = fn->parameters.count - fn->defaults.count;

	for (size_t i = 0; i < fn->parameters.count; i++) {
		const struct jinja_node *parameter = fn->parameters.at[i];
		struct jinja_value *slot = &f->slots[parameter->ref.slot];

		if (slot->type != JINJA_MISSING)
			continue;
		if (i >= required)
			*slot = jinja_eval(j, f, fn->defaults.at[i - required]);
		else
			*slot = jinja_undefined_name(j, parameter->value);
	}
}

static struct jinja_value
call_macro(struct jinja *j, const struct jinja_macro *macro, const struct jinja_args *args)
{
	const struct jinja_function *fn = macro->function;
	struct jinja_frame *f = jinja_frame_new(j, fn, macro->closure);
	size_t from = j->out_len;
	uint32_t line = j->line;
	struct jinja_value v;

	if (++j->macros > JINJA_MACRO_MAX)
		jinja_fail(j, JINJA_LIMIT, "maximum recursion depth exceeded in macros");
	jinja_enter(j);
	bind_macro(j, fn, f, args);
	jinja_scope_enter(j, f, &fn->scope);
	set_defaults(j, fn, f);
	jinja_run(j, f, &fn->body);
	v = jinja_capture(j, from);
	v.flags = j->autoescape ? JINJA_MARKUP : 0;
	jinja_leave(j);
	j->macros--;
	j->line = line;
	return v;
}

static struct jinja_value
call_joiner(struct jinja_joiner *joiner)
{
	if (joiner->used)
		return joiner->separator;
	joiner->used = true;
	return jinja_string("", 0);
}

struct jinja_value
jinja_call(struct jinja *j, struct jinja_value callee, const struct jinja_args *args)
{
	switch (callee.type) {
	case JINJA_MACRO:
		return call_macro(j, callee.macro, args);
	case JINJA_FUNCTION:
		return callee.function->call(j, args);
	case JINJA_METHOD:
		if (callee.method->entry->call == NULL)
			jinja_fail(j, JINJA_RUNTIME, "the method '%s' is not supported",
			    callee.method->entry->name);
		return callee.method->entry->call(j, callee.method->self, args);
	case JINJA_JOINER:
		jinja_bind(j, "joiner", args, NULL, 0, 0, NULL);
		return call_joiner(callee.joiner);
	case JINJA_LOOP:
		jinja_fail(j, JINJA_RUNTIME,
		    "The loop must have the 'recursive' marker to be called recursively.");
	default:
		jinja_fail_type(j, "'%s' object is not callable", callee);
	}
}

void
jinja_bind(struct jinja *j, const char *function, const struct jinja_args *args,
    const char *const *names, size_t count, size_t required, struct jinja_value *out)
{
	if (args->count > count)
		jinja_fail(j, JINJA_RUNTIME, "%s() takes at most %zu arguments (%zu given)",
		    function, count, args->count);
	for (size_t i = 0; i < count; i++)
		out[i] = i < args->count ? args->at[i] : (struct jinja_value){0};
	for (size_t k = 0; k < args->keywords; k++) {
		struct jinja_value name = args->keyword[k].name;
		size_t i = 0;

		while (names != NULL && i < count && !jinja_string_is(name, names[i]))
			i++;
		if (names == NULL || i == count || out[i].type != JINJA_MISSING)
			jinja_fail(j, JINJA_RUNTIME,
			    "%s() got an unexpected keyword argument '%.*s'", function,
			    name.len > 80 ? 80 : (int)name.len, name.text);
		out[i] = args->keyword[k].value;
	}
	for (size_t i = 0; i < required; i++)
		if (out[i].type == JINJA_MISSING)
			jinja_fail(
			    j, JINJA_RUNTIME, "%s() is missing a required argument", function);
}

struct jinja_value
jinja_arg_string(struct jinja *j, struct jinja_value v, const char *otherwise)
{
	if (v.type == JINJA_MISSING && otherwise != NULL)
		return jinja_string(otherwise, strlen(otherwise));
	if (v.type != JINJA_STRING)
		jinja_fail_type(j, "an argument must be str, not %s", v);
	return v;
}

int64_t
jinja_arg_int(struct jinja *j, struct jinja_value v, int64_t otherwise)
{
	return v.type == JINJA_MISSING ? otherwise : jinja_to_int64(j, v, "an argument");
}

bool
jinja_arg_bool(struct jinja_value v, bool otherwise)
{
	return v.type == JINJA_MISSING ? otherwise : jinja_truth(v);
}
