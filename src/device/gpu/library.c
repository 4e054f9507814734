/* Opens the libraries of a driver, by the options of a device, and offers their routines as
 * candidates: the cheaper one by estimate is taken, and of equal ones the library's. */
#include <stdio.h>

#include "device/gpu/gpu.h"

static int count_of(const gpu_driver *driver)
{
    int count = 0;
    while (driver->libraries && driver->libraries[count]) count++;
    return count;
}

/* Options of a device, before its libraries are opened. */
typedef struct options {
    char *which; /* what the driver reads: the first piece, unless that is an option */
    char *names; /* of the libraries that must be there; NULL: those found */
    char *tf32_word;
    bool wanted[GPU_LIBRARIES], tf32;
} options;

static void free_options(options *o)
{
    free(o->which);
    free(o->names);
    free(o->tf32_word);
}

static void list_names(const gpu_driver *driver, char *to, size_t size)
{
    size_t end = 0;
    to[0] = 0;
    for (int l = 0; l < count_of(driver) && end < size; l++)
        end += (size_t)snprintf(to + end, size - end, ", %s", driver->libraries[l]->name);
}

/* Sets o->wanted[l] for each library of the names, which are separated by '+'; "none" is no
 * library. */
static weft_status read_names(const gpu_driver *driver, options *o)
{
    if (strcmp(o->names, "none") == 0) return WEFT_OK;
    for (const char *at = o->names;; at++) {
        size_t size = strcspn(at, "+");
        bool known = false;
        for (int l = 0; l < count_of(driver); l++)
            if (size == strlen(driver->libraries[l]->name) &&
                strncmp(at, driver->libraries[l]->name, size) == 0)
                known = o->wanted[l] = true;
        if (!known) {
            char list[128];
            list_names(driver, list, sizeof(list));
            return weft->fail(WEFT_ERR_ARGUMENT,
                              "device %s: libraries=%s: '%.*s' is no library of the device; "
                              "give none%s, several with '+' between them",
                              driver->name, o->names, (int)size, at, list);
        }
        at += size;
        if (*at != '+') return WEFT_OK;
    }
}

/* Reads and checks all arguments, so that nothing is opened for a misspelt one. */
static weft_status read_options(const gpu_driver *driver, const char *arguments, options *o)
{
    const weft_spec_key keys[] = {
        {.name = "libraries", .text = &o->names}, {.name = "tf32", .text = &o->tf32_word}, {0}};
    size_t all = strlen(arguments), first = strcspn(arguments, ":");
    char what[64], *rest;
    if (memchr(arguments, '=', first)) first = 0;
    WEFT_TRY(weft->allocate(all + 1, &o->which));
    memcpy(o->which, arguments, first);
    arguments += first + (arguments[first] == ':');
    if (!*arguments) return WEFT_OK;
    WEFT_TRY(weft->allocate(all + 1, &rest));
    strcpy(rest, arguments);
    for (char *at = rest; (at = strchr(at, ':'));) *at = ',';
    (void)snprintf(what, sizeof(what), "device %s", driver->name);
    weft_status status = weft->parse(what, rest, keys);
    free(rest);
    WEFT_TRY(status);
    o->tf32 = o->tf32_word && strcmp(o->tf32_word, "on") == 0;
    if (o->tf32_word && !o->tf32 && strcmp(o->tf32_word, "off") != 0)
        return weft->fail(WEFT_ERR_ARGUMENT, "device %s: tf32=%s, must be on or off", driver->name,
                          o->tf32_word);
    return o->names ? read_names(driver, o) : WEFT_OK;
}

/* Opens a library once for its card; it is left out if it is not found or does not work. */
static void open_one(gpu_card *card, int l)
{
    gpu_opened *opened = &card->opened[l];
    pthread_mutex_lock(&card->lock);
    if (!opened->library) {
        opened->library = card->driver->libraries[l];
        opened->state = opened->library->open(card, opened->text, sizeof(opened->text));
    }
    pthread_mutex_unlock(&card->lock);
}

/* Fails for a library that the user has named. */
static weft_status not_there(const gpu_driver *driver, const gpu_opened *opened)
{
    const gpu_library *l = opened->library;
    if (*opened->text)
        return weft->fail(WEFT_ERR_UNSUPPORTED, "device %s: %s does not work here: %s",
                          driver->name, l->name, opened->text);
    return weft->fail(WEFT_ERR_UNSUPPORTED, "device %s: %s is not found: %s", driver->name, l->name,
                      l->advice);
}

static weft_status open_all(gpu_device *d, const options *o)
{
    gpu_card *card = d->card;
    size_t end = (size_t)snprintf(d->about, sizeof(d->about), "%s", card->name);
    int used = 0;
    for (int l = 0; l < count_of(card->driver); l++) {
        if (o->names ? !o->wanted[l] : card->driver->libraries[l]->named) continue;
        open_one(card, l);
        const gpu_opened *opened = &card->opened[l];
        d->uses[l] = opened->state != NULL;
        used += d->uses[l] && opened->library->table;
        if (!opened->state && o->names) return not_there(card->driver, opened);
        if (!*opened->text || end >= sizeof(d->about)) continue;
        end += (size_t)snprintf(d->about + end, sizeof(d->about) - end,
                                opened->state ? ", %s %s" : ", without %s (%s)",
                                opened->library->name, opened->text);
    }
    d->tf32 = o->tf32;
    if (used == 0 && o->tf32)
        return weft->fail(WEFT_ERR_ARGUMENT,
                          "device %s: tf32=on needs a library that computes in TF32, and none is "
                          "in use; own kernels compute in f32",
                          card->driver->name);
    if (o->tf32 && end < sizeof(d->about))
        (void)snprintf(d->about + end, sizeof(d->about) - end, ", TF32");
    return WEFT_OK;
}

weft_status gpu_options_open(const gpu_driver *driver, const char *arguments, gpu_device *device)
{
    options o = {.which = NULL};
    weft_status status = read_options(driver, arguments, &o);
    if (status == WEFT_OK) status = gpu_card_take(driver, o.which, &device->card);
    if (status == WEFT_OK) {
        status = open_all(device, &o);
        if (status != WEFT_OK) gpu_card_give(device->card);
    }
    free_options(&o);
    return status;
}

void gpu_libraries_close(gpu_card *card)
{
    for (int l = 0; l < GPU_LIBRARIES; l++)
        if (card->opened[l].state) card->opened[l].library->close(card->opened[l].state);
}

/* The operators that follow a routine are a pass over its result. */
static double seconds_of(const gpu_device *d, const gpu_library *l, const weft_group *group)
{
    weft_rates rates = d->head.ops->rates;
    weft_value main_out;
    (void)weft->node_outputs(group->node[0], &main_out);
    double bytes = (double)weft->type_bytes(weft->value_type(group->graph, main_out));
    bool whole = group->count == 1 || l->whole(group);
    double pass = whole ? 0 : rates.start + 2 * bytes / rates.bytes;
    rates.flops = d->tf32 ? l->tf32_flops : l->flops;
    return weft->group_seconds(&rates, group) + pass;
}

int gpu_library_candidates(const gpu_device *device, const gpu_entry *table, const gpu_entry *entry,
                           const weft_group *group, weft_candidate *out, int most)
{
    int count = 0;
    for (int l = 0; l < GPU_LIBRARIES; l++) {
        if (!device->uses[l] || count >= most) continue;
        const gpu_library *library = device->card->opened[l].library;
        if (library->table == table)
            out[count++] = (weft_candidate){
                .name = library->name, .seconds = seconds_of(device, library, group), .how = entry};
    }
    return count;
}

const void *gpu_library_used(const gpu_device *device, const gpu_library *library)
{
    for (int l = 0; l < GPU_LIBRARIES; l++)
        if (device->uses[l] && device->card->opened[l].library == library)
            return device->card->opened[l].state;
    return NULL;
}

const gpu_opened *gpu_library_of(const gpu_device *device, const weft_candidate *candidate)
{
    for (int l = 0; l < GPU_LIBRARIES; l++)
        if (device->uses[l] && candidate->name == device->card->opened[l].library->name)
            return &device->card->opened[l];
    return NULL;
}
