/* The data source of pairs: two passages of a text, one-hot by byte, and whether the second follows
 * the first in the text. */
#include "data/data.h"
#include "formats/formats.h"

enum { BYTES = 256, LENGTH = 140 };

/* The two splits are disjoint parts of the text: its beginning and its end. */
typedef struct pairs_source {
    weft_source head;
    weft_bytes file;
    int64_t length, begin[2], end[2];
    uint64_t seed;
} pairs_source;

static void pairs_close(weft_source *source)
{
    weft_gzip_close(&((pairs_source *)source)->file);
    free(source);
}

static weft_status pairs_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* pairs_open has mapped the file */
    return WEFT_OK;
}

/* A pair: its passages begin at first and second, and `follows` says whether they are neighbours.
 * The begin of the first passage, the label and the begin of another passage are functions of the
 * seed, the split and the number of the sample. */
typedef struct pair {
    int64_t first, second;
    bool follows;
} pair;

static pair pair_at(const pairs_source *s, weft_split split, int64_t i)
{
    weft_random random;
    weft_random_start(&random, weft_mix(s->seed, (uint64_t)split), (uint64_t)i);
    int64_t places = s->end[split] - s->begin[split] - 2 * s->length + 1;
    int64_t first = s->begin[split] + (int64_t)weft_random_between(&random, 0, (double)places);
    bool follows = weft_random_u32(&random) % 2;
    int64_t other =
        s->begin[split] + s->length + (int64_t)weft_random_between(&random, 0, (double)places);
    return (pair){first, follows ? first + s->length : other, follows};
}

static void pairs_features(const weft_source *source, weft_split split, int64_t i, int input,
                           void *to)
{
    const pairs_source *s = (const pairs_source *)source;
    pair p = pair_at(s, split, i);
    const unsigned char *passage = s->file.data + (input == 0 ? p.first : p.second);
    float *x = to;
    memset(x, 0, (size_t)s->length * BYTES * sizeof(*x));
    for (int64_t t = 0; t < s->length; t++) x[t * BYTES + passage[t]] = 1;
}

static void pairs_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    *label = pair_at((const pairs_source *)source, split, i).follows;
}

static weft_status load(pairs_source *s, const char *path, double share)
{
    WEFT_TRY(weft_gzip_open(path, &s->file));
    int64_t size = (int64_t)s->file.size, test = (int64_t)((double)size * share + 0.5);
    s->end[WEFT_TRAIN] = s->begin[WEFT_TEST] = size - test;
    s->end[WEFT_TEST] = size;
    for (int split = 0; split < 2; split++)
        if (s->end[split] - s->begin[split] < 3 * s->length)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: its %s part has %lld bytes, and pairs of length=%lld need %lld; "
                             "give a longer text, or another share",
                             path, weft_split_name((weft_split)split),
                             (long long)(s->end[split] - s->begin[split]), (long long)s->length,
                             (long long)(3 * s->length));
    return WEFT_OK;
}

static weft_status pairs_open(const char *arguments, const weft_source_request *request,
                              weft_source **out)
{
    const weft_data_stats *stats = request->stats;
    double length = stats && stats->inputs == 2 ? (double)stats->input[0].shape.dim[0] : LENGTH;
    double train = 20000, test = 2000, share = 0.1, seed = 1;
    const weft_spec_key keys[] = {
        {.name = "length", .number = &length, .low = 1, .high = 65536, .integer = true},
        {.name = "train", .number = &train, .low = 1, .high = 1e9, .integer = true},
        {.name = "test", .number = &test, .low = 1, .high = 1e9, .integer = true},
        {.name = "share", .number = &share, .low = 0, .high = 1},
        {.name = "seed", .number = &seed, .low = 0, .high = 1e15, .integer = true},
        {.name = NULL}};
    char *path;
    pairs_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status = weft_spec_file("pairs", arguments, keys, request, &path);
    s->head = (weft_source){.ops = &weft_source_pairs, .inputs = 2, .classes = 2, .valid = true};
    s->length = (int64_t)length;
    s->seed = (uint64_t)seed;
    for (int i = 0; i < 2; i++)
        s->head.input[i] = (weft_input){.name = {(char)('a' + i)},
                                        .dtype = WEFT_F32,
                                        .shape = weft_shape_of(2, (int64_t[]){s->length, BYTES})};
    s->head.count[WEFT_TRAIN] = (int64_t)train;
    s->head.count[WEFT_TEST] = (int64_t)test;
    if (status == WEFT_OK) status = load(s, path, share);
    free(path);
    if (status == WEFT_OK)
        *out = &s->head;
    else
        pairs_close(&s->head);
    return status;
}

const weft_source_ops weft_source_pairs = {
    .kind = "pairs",
    .form = "pairs:FILE[,length=140,train=20000,test=2000,share=0.1,seed=1]",
    .help = "two passages of a text of `length` bytes each, one-hot, as the inputs a and b; the "
            "class is 1 if b follows a in the text, and 0 if b is from elsewhere; the test split "
            "draws from the last `share` of the text",
    .open = pairs_open,
    .close = pairs_close,
    .prepare = pairs_prepare,
    .features = pairs_features,
    .label = pairs_label,
};
