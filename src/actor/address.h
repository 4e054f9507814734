/* Where an actor is reached: addresses with blanks between them, the best first. One inside of a
 * process ends in "@" and the number of its world, and is of use only there. */
#ifndef WEFT_ACTOR_ADDRESS_H
#define WEFT_ACTOR_ADDRESS_H

#include "base/base.h"

/* Appends what a socket was bound to. */
weft_status weft_address_add(char **list, const char *bound, uint64_t token) WEFT_NODISCARD;
/* Of the list the first that can be reached from the world `token`; NULL: none can. The caller
 * frees it. */
weft_status weft_address_choose(const char *list, uint64_t token, char **out) WEFT_NODISCARD;

#endif
