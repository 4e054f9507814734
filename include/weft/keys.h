/* Keys of processes that work together on several machines. Each process has a secret key and gives
 * the others its public key. Messages between processes are encrypted, and both sides are
 * authenticated (CurveZMQ).
 *
 * A file with a secret key belongs to its owner alone (mode 0600); the library refuses it if other
 * users may access it. The file FILE.pub beside it has one line: the public key, 64 hexadecimal
 * digits, and a name. A list of allowed keys consists of such lines; '#' begins a comment. */
#ifndef WEFT_KEYS_H
#define WEFT_KEYS_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_KEY_TEXT = 65 }; /* size of a public key as text: 64 digits and the final NUL */

/* Makes a key pair: writes the secret key to `path` and the public key to `path`.pub; if one of
 * them fails, neither file is left. public_key[WEFT_KEY_TEXT], which may be NULL, receives the
 * public key as text. ARGUMENT: one of the files exists already and stays as it is, or `path` is no
 * name of a file that can be printed; IO: a file cannot be written; UNSUPPORTED: this ZeroMQ cannot
 * encrypt. */
WEFT_API WEFT_NODISCARD weft_status weft_keys_make(const char *path, char *public_key);

#ifdef __cplusplus
}
#endif
#endif
