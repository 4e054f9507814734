/* Rewrites --place PATTERN=DEVICE,... to ranks. Each device that is named becomes a rank, in the
 * order in which the devices are first named, or is looked up in --device if that is a list. */
#include <stdio.h>

#include "device/device.h"
#include "train/trainer.h"

enum { MOST = 64 }; /* devices in one --place; a plan has at most 63 places */

/* Places with numbers: a rank, and a set of cores. */
enum { RANK, CORES };
static const char *const words[] = {[RANK] = "rank", [CORES] = "cpu"};

typedef struct placing {
    weft_train_options *options;
    bool ranks, devices; /* a place names a rank, a device other than cpu:K */
    char *names[MOST];   /* the devices, or cpu:K, in the order of ranks */
    int count;
    bool listed; /* they are those of --device, and none is added */
    weft_text text;
} placing;

static bool is_numbered(const char *value, const char *word, int64_t *number)
{
    size_t size = strlen(word);
    return strncmp(value, word, size) == 0 && value[size] == ':' &&
           weft_parse_int(value + size + 1, number) && *number >= 0;
}

static weft_status split(const placing *p, char *piece, char **value)
{
    char *equals = strchr(piece, '='); /* options of the device may have others */
    if (!equals || equals == piece || !equals[1])
        return weft_fail(WEFT_ERR_ARGUMENT, "place '%s': '%s' is not of the form PATTERN=PLACE",
                         p->options->parallel.place, piece);
    *equals = '\0';
    *value = equals + 1;
    return WEFT_OK;
}

static weft_status look(void *user, char *piece)
{
    placing *p = user;
    int64_t number;
    char *value = NULL;
    WEFT_TRY(split(p, piece, &value));
    if (is_numbered(value, words[RANK], &number))
        p->ranks = true;
    else if (!is_numbered(value, words[CORES], &number))
        p->devices = true;
    return WEFT_OK;
}

static weft_status add_device(placing *p, const char *name)
{
    if (p->count == MOST)
        return weft_fail(WEFT_ERR_ARGUMENT, "place '%s' names more than %d devices",
                         p->options->parallel.place, MOST);
    WEFT_TRY(weft_strdup(name, &p->names[p->count]));
    p->count++;
    return WEFT_OK;
}

static weft_status add_listed(void *user, char *piece)
{
    return add_device(user, piece);
}

/* Finds the rank of a device; `nth` of those of this name. A place may leave out the set of cores
 * (cpu:cores=0-3). */
static int find_device(const placing *p, const char *name, int64_t nth)
{
    for (int i = 0; i < p->count; i++) {
        size_t size;
        (void)weft_device_cores(p->names[i], &size);
        bool bare = strncmp(p->names[i], name, size) == 0 && !name[size];
        if ((bare || strcmp(p->names[i], name) == 0) && nth-- == 0) return i;
    }
    return -1;
}

/* In a list cpu:K is the K-th rank with the device cpu; else each cpu:K is another rank. */
static weft_status rewrite(void *user, char *piece)
{
    placing *p = user;
    int64_t nth = 0;
    char *value = NULL;
    WEFT_TRY(split(p, piece, &value));
    const char *name = p->listed && is_numbered(value, words[CORES], &nth) ? words[CORES] : value;
    int rank = find_device(p, name, nth);
    if (rank < 0 && !p->listed) {
        WEFT_TRY(add_device(p, name));
        rank = p->count - 1;
    }
    if (rank < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "place '%s=%s': no rank has that device; --device is %s for %lld rank%s",
                         piece, value, p->options->where.device, (long long)p->options->job.ranks,
                         weft_plural(p->options->job.ranks));
    weft_text_add(&p->text, "%s%s=rank:%d", p->text.size ? "," : "", piece, rank);
    return WEFT_OK;
}

static weft_status join_devices(const placing *p, char **out)
{
    weft_text list = {0};
    int64_t cores;
    for (int i = 0; i < p->count; i++)
        weft_text_add(&list, "%s%s", i ? "," : "",
                      is_numbered(p->names[i], words[CORES], &cores) ? words[CORES] : p->names[i]);
    return weft_text_take(&list, out);
}

static weft_status set(weft_train_options *o, const weft_option *table, const placing *p)
{
    char *list = NULL, *place = NULL, number[16];
    weft_status status = weft_text_take((weft_text *)(uintptr_t)&p->text, &place);
    if (status == WEFT_OK) status = weft_options_set(table, o, "place", place);
    if (status == WEFT_OK && !p->listed) {
        (void)snprintf(number, sizeof(number), "%d", p->count);
        status = join_devices(p, &list);
        if (status == WEFT_OK) status = weft_options_set(table, o, "device", list);
        if (status == WEFT_OK && o->job.ranks == 1)
            status = weft_options_set(table, o, "ranks", number);
    }
    free(list);
    free(place);
    return status;
}

weft_status weft_train_place_devices(const weft_context *context, weft_train_options *o)
{
    const char *text = o->parallel.place;
    placing p = {.options = o};
    if (!text || !*text) return WEFT_OK;
    WEFT_TRY(weft_each_piece("place", text, look, &p));
    if (!p.devices) return WEFT_OK;
    if (p.ranks)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "place '%s' names ranks and devices; give rank:K for all, with --device "
                         "and -n, or devices for all",
                         text);
    p.listed = strcmp(o->where.device, words[CORES]) != 0;
    weft_status status = WEFT_OK;
    if (p.listed) status = weft_each_piece("device", o->where.device, add_listed, &p);
    if (status == WEFT_OK) status = weft_each_piece("place", text, rewrite, &p);
    if (status == WEFT_OK) status = set(o, weft_train_table(context), &p);
    for (int i = 0; i < p.count; i++) free(p.names[i]);
    free(p.text.data);
    return status;
}
