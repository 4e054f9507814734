/* Lookup of names in a context. */
#ifndef WEFT_BASE_REGISTRY_H
#define WEFT_BASE_REGISTRY_H

#include "base/base.h"
#include "weft/options.h"
#include "weft/registry.h"

/* The entry named by the first `size` bytes of `name`; NULL: none. */
const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size);
/* The same, for a name that may be the path of a plug-in, which is loaded. ARGUMENT: unknown name,
 * with the nearest one; or an error of weft_plugin_load. */
weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out) WEFT_NODISCARD;

/* The names of the entries of a kind that satisfy is_so, as "a, b or c"; "" if there are none. The
 * caller frees them. */
typedef bool weft_entry_fn(const weft_entry *entry, const void *what);
weft_status weft_registry_names(const weft_context *context, weft_kind kind, weft_entry_fn *is_so,
                                const void *what, char **names) WEFT_NODISCARD;

/* Whether the entry uses an option of a run, see weft_entry.reads. */
bool weft_entry_reads(const weft_entry *entry, const char *option);

/* Whether the first `size` bytes of a name are the path of a plug-in. */
bool weft_plugin_is_path(const char *name, size_t size);

/* Binds an option table to this context; `rows` identifies it. add_table must be called once before
 * context_table. */
weft_status weft_context_add_table(weft_context *context, const weft_option *rows) WEFT_NODISCARD;
/* As above, for a table of `rows` followed by `more`, for a struct that begins with the struct of
 * `rows`. `more` identifies it. */
weft_status weft_context_add_longer(weft_context *context, const weft_option *rows,
                                    const weft_option *more) WEFT_NODISCARD;
/* Rows of a table that say nothing there, and why: an end of the list has no names. */
typedef struct weft_unused {
    const char *names; /* with commas between them */
    const char *why;
} weft_unused;
void weft_context_mark_unused(weft_context *context, const weft_option *rows,
                              const weft_unused *unused);
const weft_option *weft_context_table(const weft_context *context, const weft_option *rows);

#endif
