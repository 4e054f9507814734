/*
 * Keys of those who work together on several machines. Each has a secret one, and gives others the
 * public one that belongs to it; messages between them are encrypted, and both sides know who the
 * other is (CurveZMQ).
 *
 * A file with a secret key is its owner's alone (mode 0600), and is refused where others may read
 * it. Beside it lies FILE.pub: a line with the public key, 64 hexadecimal digits, and a name. Lines
 * of that form, of everybody who is let in, are a list of who is allowed; '#' begins a comment.
 */
#ifndef WEFT_KEYS_H
#define WEFT_KEYS_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_KEY_TEXT = 65 }; /* of a public key as text, with its end */

/* Makes a pair of keys: `path` is written with the secret one and `path`.pub with the public one,
 * both whole or none of them; public_key[WEFT_KEY_TEXT]: what the latter says; may be NULL.
 * ARGUMENT: one of the files is there, and is left as it is; IO: it cannot be written;
 * UNSUPPORTED: ZeroMQ here has no encryption. */
WEFT_API WEFT_NODISCARD weft_status weft_keys_make(const char *path, char *public_key);

#ifdef __cplusplus
}
#endif
#endif
