/* Keys of processes that work together on several machines. Each has a secret key, and gives others
 * its public key; messages between them are encrypted, and both sides are authenticated (CurveZMQ).
 *
 * A file with a secret key is its owner's alone (mode 0600), and is refused if others may read it.
 * FILE.pub beside it has a line with the public key, 64 hexadecimal digits, and a name. A list of
 * allowed keys consists of such lines; '#' begins a comment. */
#ifndef WEFT_KEYS_H
#define WEFT_KEYS_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_KEY_TEXT = 65 }; /* of a public key as text, with its end */

/* Makes a pair of keys: writes the secret one to `path` and the public one to `path`.pub, both or
 * neither; public_key[WEFT_KEY_TEXT]: the public one; may be NULL. ARGUMENT: one of the files
 * exists, and is left as it is; IO: it cannot be written; UNSUPPORTED: this ZeroMQ cannot
 * encrypt. */
WEFT_API WEFT_NODISCARD weft_status weft_keys_make(const char *path, char *public_key);

#ifdef __cplusplus
}
#endif
#endif
