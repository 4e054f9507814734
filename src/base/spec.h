/* Specifications: NAME:key=value,... */
#ifndef WEFT_BASE_SPEC_H
#define WEFT_BASE_SPEC_H

#include "base/base.h"

/* Options "a=1,b=2,c" behind a specification. */
typedef struct weft_spec_key {
    const char *name;
    double *number; /* where a number goes, or */
    char **text;    /* where a copy of the text goes, or */
    bool *flag;     /* what becomes true; there is no value then */
    double low, high;
    bool whole; /* a number without fraction */
} weft_spec_key;
/* all ends with a NULL name; text is not empty. ARGUMENT: unknown key (with the nearest), one that
 * is given twice, an empty piece, bad number. */
weft_status weft_spec_parse(const char *kind, const char *text,
                            const weft_spec_key *all) WEFT_NODISCARD;

#endif
