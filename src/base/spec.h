/* Specifications of the form NAME:key=value,... */
#ifndef WEFT_BASE_SPEC_H
#define WEFT_BASE_SPEC_H

#include "base/base.h"

/* A key of the options "a=1,b=2,c" after the name. */
typedef struct weft_spec_key {
    const char *name;
    double *number; /* receives a number, or */
    char **text;    /* receives a copy of the text, or */
    bool *flag;     /* is set to true; there is no value then */
    double low, high;
    bool integer; /* integers only */
} weft_spec_key;
/* `all` ends with a NULL name; text is not empty. ARGUMENT: unknown key (with the nearest one),
 * duplicate key, empty piece, or invalid number. */
weft_status weft_spec_parse(const char *kind, const char *text,
                            const weft_spec_key *all) WEFT_NODISCARD;

#endif
