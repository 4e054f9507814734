/* Declares lists of cores, such as 0-3+8, by which a rank gets cores of its own (cpu_affinity.c).
 */
#ifndef WEFT_BASE_CORE_LISTS_H
#define WEFT_BASE_CORE_LISTS_H

#include "base/base.h"

/* Counts the cores of a list. ARGUMENT: the list is malformed, or has a core that this process may
 * not use. */
weft_status weft_core_list_count(const char *list, int *count) WEFT_NODISCARD;
/* Makes a set of cores for each part: those of its list or, if that is NULL, all that no list has
 * (none are left: all cores). ARGUMENT: also if two lists have the same core. */
weft_status weft_core_sets_of_lists(const char *const *lists, int parts,
                                    weft_core_sets **out) WEFT_NODISCARD;

#endif
