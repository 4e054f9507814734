/* Looking for names in a context. */
#ifndef WEFT_BASE_REGISTRY_H
#define WEFT_BASE_REGISTRY_H

#include "base/base.h"
#include "weft/options.h"
#include "weft/registry.h"

/* The entry that the first `size` bytes of `name` call; NULL: there is none. */
const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size);
/* The same where a name may also be the path of a plug-in, which is loaded. ARGUMENT: there is
 * none, with the nearest; or as weft_plugin_load. */
weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out) WEFT_NODISCARD;

/* The names of a kind's entries of which something is so, as "a, b or c"; "" where there is none.
 * The caller frees them. */
typedef bool weft_entry_fn(const weft_entry *entry, const void *what);
weft_status weft_registry_names(const weft_context *context, weft_kind kind, weft_entry_fn *is_so,
                                const void *what, char **names) WEFT_NODISCARD;

/* Whether what it is has a use for an option of a run, see weft_entry.reads. */
bool weft_entry_reads(const weft_entry *entry, const char *option);

/* Whether the first `size` bytes of a name are the path of a plug-in. */
bool weft_plugin_is_path(const char *name, size_t size);

/* A table of options whose rows ask this context; `rows` says which. The context must have been
 * given it before, once. */
weft_status weft_context_add_table(weft_context *context, const weft_option *rows) WEFT_NODISCARD;
/* The same for a table of which `more` are the last rows, `rows` those before: for a struct that
 * begins with the struct of those. `more` says which. */
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
