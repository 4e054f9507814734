/* Declares the lookup of registry entries by name, and of option tables, in a context. */
#ifndef WEFT_BASE_REGISTRY_H
#define WEFT_BASE_REGISTRY_H

#include "base/base.h"
#include "weft/options.h"
#include "weft/registry.h"

/* The structs that programs and plug-ins may add to a kind: a public header declares them, and
 * their first field is struct_size. */
typedef struct weft_extension {
    weft_kind kind;
    const char *type; /* name of the struct, for messages */
    size_t size;      /* bytes of the struct in this version, and at least those of older ones */
    size_t least;
    /* Checks such a struct, and makes of it what the room reads in place of a built-in entry's
     * `ops`. `ops` is a copy, in which fields that the caller's version lacks are 0; it lives as
     * long as the context. *made is freed with free; NULL: the copy itself. */
    weft_status (*accept)(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made);
    /* Names of entries that plug-ins have which are installed beside the library, as
     * libweft-NAME.so; the first use of a name loads its plug-in. NULL ends the list; NULL: none.
     */
    const char *const *shipped;
} weft_extension;
/* Lets weft_context_register add entries of a kind. The struct must outlive the context. */
WEFT_PRIVATE_API void weft_context_extend(weft_context *context, const weft_extension *extension);
/* Fails unless a function that an entry must have is given. */
WEFT_PRIVATE_API weft_status weft_entry_need(const weft_entry *entry, const char *function,
                                             bool given) WEFT_NODISCARD;

/* Adds built-in entries, whose `ops` are those of the room. Errors: see weft_context_register. */
WEFT_PRIVATE_API weft_status weft_registry_add(weft_context *context, const weft_entry *entries,
                                               int count) WEFT_NODISCARD;

/* The entry whose present or former name is the first `size` bytes of `name`; NULL: none. */
WEFT_PRIVATE_API const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind,
                                                      const char *name, size_t size);
/* As weft_registry_look, but the name may also be the path of a plug-in that the context has
 * loaded; this function never loads one. ARGUMENT: the name is unknown; the message gives the
 * nearest one. */
WEFT_PRIVATE_API weft_status weft_registry_find(const weft_context *context, weft_kind kind,
                                                const char *name, size_t size,
                                                const weft_entry **out) WEFT_NODISCARD;

/* plugin_names.c. The plug-ins of a record, such as a checkpoint, are a text: "KIND=NAME=FILE" for
 * each entry, with colons between them. `_names` gives those that a context has loaded; *out is
 * NULL if there are none, else the caller frees it. `_remember` takes those of a record, for
 * messages alone: it loads nothing. */
weft_status weft_plugin_names(const weft_context *context, char **out) WEFT_NODISCARD;
weft_status weft_plugin_remember(const weft_context *context, const char *names) WEFT_NODISCARD;
/* For a message that a name is unknown: which plug-in had it, or that one may have it, or "" if
 * none can. Returns the buffer. */
enum { WEFT_PLUGIN_HINT = 1024 };
const char *weft_plugin_hint(const weft_context *context, weft_kind kind, const char *name,
                             size_t size, char *buffer, size_t room);
/* Replaces the paths of plug-ins by which a value names an entry by the entry's own name. */
weft_status weft_plugin_resolve(const weft_context *context, weft_kind kind,
                                char **text) WEFT_NODISCARD;

/* Sets *names to the names of the entries of a kind for which is_so returns true, as "a, b or c",
 * or to "" if there are none. The caller frees the string. */
typedef bool weft_entry_fn(const weft_entry *entry, const void *what);
weft_status weft_registry_names(const weft_context *context, weft_kind kind, weft_entry_fn *is_so,
                                const void *what, char **names) WEFT_NODISCARD;

/* Whether the entry reads the option, see weft_entry.reads. */
bool weft_entry_reads(const weft_entry *entry, const char *option);

/* Messages' word for an entry of a kind. */
const char *weft_kind_word(weft_kind kind);
/* The kind of entries that the value of an option may name, by the option's name; NONE: another. */
weft_kind weft_kind_of_option(const char *option);

/* Whether the first `size` bytes of a name are the path of a plug-in. */
bool weft_plugin_is_path(const char *name, size_t size);
/* ARGUMENT: an option is the path of a plug-in. A checkpoint's options never are, unless somebody
 * has changed them, since plug-ins are loaded by the user's word alone. */
weft_status weft_plugin_refuse_options(const weft_option *table,
                                       const void *options) WEFT_NODISCARD;

/* Adds a copy of an option table to this context; `rows` identifies it. Must be called once before
 * weft_context_table can return the copy. */
WEFT_PRIVATE_API weft_status weft_context_add_table(weft_context *context,
                                                    const weft_option *rows) WEFT_NODISCARD;
/* As weft_context_add_table, for a table of the rows of `rows` followed by the rows of `more`,
 * whose struct begins with the struct of `rows`. A row of `more` with the name of one of `rows`
 * only gives that option another help. `more` identifies the table. */
weft_status weft_context_add_longer(weft_context *context, const weft_option *rows,
                                    const weft_option *more) WEFT_NODISCARD;
/* Options that have no effect in a table, and the reason. An element without names ends a list. */
typedef struct weft_unused {
    const char *names; /* with commas between them */
    const char *why;
} weft_unused;
/* Sets weft_option.unused in the context's copy of the table; of several reasons the first
 * counts. */
void weft_context_mark_unused(weft_context *context, const weft_option *rows,
                              const weft_unused *unused);
WEFT_PRIVATE_API const weft_option *weft_context_table(const weft_context *context,
                                                       const weft_option *rows);

#endif
