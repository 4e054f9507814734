/* The values of options, by their kinds; see weft/options.h. target: the struct that has them. */
#ifndef WEFT_BASE_OPTION_VALUES_H
#define WEFT_BASE_OPTION_VALUES_H

#include "base/base.h"
#include "weft/options.h"

/* Bytes of the field. */
size_t weft_option_width(const weft_option *option);
/* Refuses a number that is out of bounds, unless it is the default, and an empty text. */
weft_status weft_option_check_value(const weft_option *option, const void *options) WEFT_NODISCARD;
/* Sets the field from text, or adds the text to a list of texts. */
weft_status weft_option_store(const weft_option *option, void *target,
                              const char *text) WEFT_NODISCARD;
/* Sets *out to the value as text, or to NULL if there is none; the caller frees it. */
weft_status weft_option_text(const weft_option *option, const void *target,
                             char **out) WEFT_NODISCARD;
/* Frees the strings of the field. */
void weft_option_clear(const weft_option *option, void *target);

#endif
