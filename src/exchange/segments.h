/* The segments of the flat parameters (WEFT_ALL_PARAMETERS of a store) that update rules tell
 * apart: by their factor of the learning rate, or each tensor. Ranges of servers are cut where
 * rules by tensor need it. */
#ifndef WEFT_EXCHANGE_SEGMENTS_H
#define WEFT_EXCHANGE_SEGMENTS_H

#include "base/base.h"
#include "weft/optim.h"
#include "weft/program.h"

typedef struct weft_segment {
    int64_t begin; /* of its elements; it ends where the next one begins */
    double factor; /* of the learning rate; 0: its parameters and moments stay as they are */
} weft_segment;

/* The segments in ascending order; the first begins at 0. None: one, of factor 1. */
typedef struct weft_segment_list {
    weft_segment *at;
    size_t count;
    bool whole; /* each is a tensor, of which an update needs all elements */
} weft_segment_list;

/* Lists the segments of a store for an optimizer. The caller frees out->at. UNSUPPORTED: rules by
 * tensor, and the store has only a part of a tensor; or they need rows and columns. ARGUMENT: they
 * have fewer tensors than there are servers. */
weft_status weft_segments_of(const weft_store *store, const weft_optimizer_options *optimizer,
                             int servers, weft_segment_list *out) WEFT_NODISCARD;
/* The number of ranges of `count` parameters: that of weft_server_ranges, or a smaller multiple of
 * the servers, since a range has at least one tensor. */
int weft_segments_ranges(weft_segment_list list, int64_t count, weft_dtype dtype, int servers);
/* Whether the update leaves all elements from `begin` up to `end` as they are. */
bool weft_segments_frozen(weft_segment_list list, int64_t begin, int64_t end);
/* The first element of a range; `count` for the range after the last one. */
int64_t weft_segments_cut(weft_segment_list list, int64_t count, int range, int ranges);

#endif
