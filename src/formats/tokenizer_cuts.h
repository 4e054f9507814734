/* Reads how a tokenizer.json cuts a text before it is encoded. */
#ifndef WEFT_FORMATS_TOKENIZER_CUTS_H
#define WEFT_FORMATS_TOKENIZER_CUTS_H

#include <jansson.h>

#include "formats/tokenizer_json.h"

/* Adds the cuts of the pre-tokenizer of the file `name`. UNSUPPORTED: it has one of another kind,
 * or no ByteLevel. */
weft_status weft_bpe_read_cuts(const char *name, const json_t *pre_tokenizer,
                               weft_bpe_spec *out) WEFT_NODISCARD;
/* UNSUPPORTED: "NAME: WHAT 'KIND' is not supported", and which tokenizers are. */
weft_status weft_bpe_other_kind(const char *name, const char *what,
                                const char *kind) WEFT_NODISCARD;
/* The member `type`; "": there is none. */
const char *weft_json_type(const json_t *object);
/* Whether a member is absent, null, false, zero or an empty text. */
bool weft_json_is_off(const json_t *object, const char *key);

#endif
