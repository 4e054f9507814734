/* Finds samples that are held out and trained on as well: rows of a table that stand both in files
 * of the training and in those by which it is judged. */
#include "data/data.h"

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t mix_number(uint64_t hash, double number)
{
    uint64_t bits;
    number += 0; /* -0 becomes 0 */
    memcpy(&bits, &number, sizeof(bits));
    return weft_mix(hash, bits);
}

uint64_t weft_dataset_row_hash(const weft_dataset *d, weft_split split, int64_t i)
{
    const weft_source *s = d->source;
    uint64_t hash = s->ops->hash(s, split, i);
    for (int j = 0; j < s->targets && !s->mirrored; j++)
        hash = mix_number(hash, s->ops->target(s, split, i, j));
    int32_t label = 0;
    if (s->targets == 0) s->ops->label(s, split, i, &label);
    return weft_mix(hash, s->targets == 0 ? (uint64_t)weft_dataset_class(d, label) : 0);
}

/* Counts the later samples, of sorted hashes, that the training has; -1: there is no memory.
 */
static int64_t count_repeated(const weft_dataset *trained, uint64_t *later, int64_t count)
{
    int64_t repeated = 0, found = 0;
    bool *seen = calloc((size_t)count, sizeof(*seen));
    if (!seen) return -1;
    for (int64_t i = 0; i < trained->source->count[WEFT_TRAIN]; i++) {
        uint64_t hash = weft_dataset_row_hash(trained, WEFT_TRAIN, i);
        const uint64_t *at = bsearch(&hash, later, (size_t)count, sizeof(*later), compare);
        if (at) seen[at - later] = true;
    }
    /* bsearch finds one of equal hashes */
    for (int64_t first = 0, next; first < count; first = next) {
        for (next = first, found = 0; next < count && later[next] == later[first]; next++)
            found += seen[next];
        if (found) repeated += next - first;
    }
    free(seen);
    return repeated;
}

weft_status weft_dataset_note_repeated(const weft_dataset *trained, const weft_dataset *later,
                                       weft_split split)
{
    const weft_source *s = later->source;
    uint64_t *hashes;
    int64_t count = s->count[split];
    bool comparable = s->ops->hash && trained->source->ops->hash && !s->unlabelled &&
                      !trained->source->unlabelled && count > 0;
    if (!comparable) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&hashes, count));
    for (int64_t i = 0; i < count; i++) hashes[i] = weft_dataset_row_hash(later, split, i);
    qsort(hashes, (size_t)count, sizeof(*hashes), compare);
    int64_t repeated = count_repeated(trained, hashes, count);
    free(hashes);
    if (repeated < 0) return weft_fail_memory((size_t)count);
    if (repeated > 0)
        weft_log(trained->context, WEFT_LOG_WARNING,
                 "%lld of the %lld rows of the %s part are also rows of the training part, with "
                 "the same numbers and texts, so its figures say less of new data",
                 (long long)repeated, (long long)count,
                 weft_split_name(trained == later ? split : WEFT_VALIDATION));
    return WEFT_OK;
}
