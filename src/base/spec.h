/* Declares the parser for the keys of a specification of the form NAME:key=value,... */
#ifndef WEFT_BASE_SPEC_H
#define WEFT_BASE_SPEC_H

#include "base/base.h"

/* A key that may be given after the name, as in NAME:a=1,b=2,c. One of `number`, `text` and `flag`
 * is set and receives the value. */
typedef struct weft_spec_key {
    const char *name;
    double *number;   /* receives a number */
    char **text;      /* receives a copy of the text, which the caller frees */
    bool *flag;       /* set to true if the key is given, which then takes no value */
    double low, high; /* inclusive bounds of the number */
    bool integer;     /* the number must be whole */
} weft_spec_key;
/* Parses `text`, the part after the colon, which is not empty. A NULL name ends `all`; `kind`
 * begins each message. ARGUMENT: unknown key (the message gives the nearest one), duplicate key,
 * empty piece, missing or unexpected value, or invalid number. */
weft_status weft_spec_parse(const char *kind, const char *text,
                            const weft_spec_key *all) WEFT_NODISCARD;

#endif
