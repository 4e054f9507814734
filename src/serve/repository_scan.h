/* The folders of a model repository: DIR/NAME/VERSION. */
#ifndef WEFT_SERVE_REPOSITORY_SCAN_H
#define WEFT_SERVE_REPOSITORY_SCAN_H

#include "base/base.h"

/* A version that a scan has found in the folder. */
typedef struct weft_found_version {
    int64_t version;
    uint64_t files_hash; /* hash that changes with its files */
} weft_found_version;

/* Appends the versions in the folder of a model to *out, which the caller frees, the newest first.
 * A folder that is not there has none. */
weft_status weft_repository_versions(const char *folder, weft_found_version **out,
                                     int *count) WEFT_NODISCARD;
/* Appends the names of the models to *out, in order; the caller frees the list and each name.
 * capacity: of the list, for WEFT_GROW. */
weft_status weft_repository_names(const char *folder, char ***out, int *count,
                                  size_t *capacity) WEFT_NODISCARD;

#endif
