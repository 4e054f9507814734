/* Declares the parser for the keys of a specification of the form NAME:key=value,... */
#ifndef WEFT_BASE_SPEC_H
#define WEFT_BASE_SPEC_H

#include "base/base.h"
#include "weft/spec.h"

/* Parses `text`, the part after the colon, which is not empty. A NULL name ends `all`; `kind`
 * begins each message. ARGUMENT: unknown key (the message gives the nearest one), duplicate key,
 * empty piece, missing or unexpected value, or invalid number. */
WEFT_PRIVATE_API weft_status weft_spec_parse(const char *kind, const char *text,
                                             const weft_spec_key *all) WEFT_NODISCARD;
/* As weft_spec_parse, but the text may be empty. */
weft_status weft_spec_parse_any(const char *kind, const char *text,
                                const weft_spec_key *all) WEFT_NODISCARD;

#endif
