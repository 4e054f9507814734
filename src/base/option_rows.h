/* Rows of option tables. OPTION(name, argument, kind, ...): argument NULL for a flag; the rest are
 * fields of weft_option, of which the first says where the value lies. */
#ifndef WEFT_BASE_OPTION_ROWS_H
#define WEFT_BASE_OPTION_ROWS_H

#include <stddef.h>

#include "weft/options.h"

#define OPTION(name_, argument_, kind_, ...)                                                       \
    {                                                                                              \
        .name = name_, .argument = argument_, kind_, __VA_ARGS__                                   \
    }
/* The kinds: with the default as text, and with the inclusive bounds of a number. */
#define TEXT .kind = WEFT_OPT_STRING
#define TEXT_IS(initial_) .kind = WEFT_OPT_STRING, .initial = initial_
#define FLAG .kind = WEFT_OPT_FLAG, .initial = "false"
#define WHOLE(initial_, ...) .kind = WEFT_OPT_INT, .initial = initial_, BOUNDS(__VA_ARGS__)
#define REAL(initial_, ...) .kind = WEFT_OPT_REAL, .initial = initial_, BOUNDS(__VA_ARGS__)
#define BOUNDS(...) BOUNDS_(__VA_ARGS__)
#define BOUNDS_(low_, high_) .low = low_, .high = high_

#endif
