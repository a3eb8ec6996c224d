/*
 * What the text of a setting says, by the setting's type.
 */
#ifndef SUPERVISOR_SETTINGS_CONFIG_VALUE_H
#define SUPERVISOR_SETTINGS_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits; of a size, in bytes, with one of k M G T behind them or none. 0, -EINVAL, or
   -ERANGE where no uint64_t holds it. */
int config_value_number(const char *text, bool size, uint64_t *out);

/* true or false, 1 or 0, yes or no, on or off, in any case. 0 or -EINVAL. */
int config_value_bool(const char *text, bool *out);

/* Is text one of the words of "a|b|c"? With text NULL: the first. A new string, the caller's, or
   NULL: it is none, or there is no memory. */
char *config_value_choice(const char *text, const char *words);

#endif
