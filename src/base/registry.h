/* Looking for names in a context. */
#ifndef WEFT_BASE_REGISTRY_H
#define WEFT_BASE_REGISTRY_H

#include "base/base.h"
#include "weft/registry.h"

/* The entry that the first `size` bytes of `name` call; NULL: there is none. */
const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size);
/* The same where a name may also be the path of a plug-in, which is loaded. ARGUMENT: there is
 * none, with the nearest; or as weft_plugin_load. */
weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out) WEFT_NODISCARD;

#endif
