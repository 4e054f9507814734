/* Keys of a specification NAME:key=value,..., for the implementations of what options name. */
#ifndef WEFT_SPEC_H
#define WEFT_SPEC_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
