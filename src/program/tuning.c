/* The table of measurements as text, and the search in it.
 *
 * The text has a first line with the format, lines about the machine, and one line for each
 * measurement; tabs separate the fields of a line:
 *
 *   weft-tuning  1
 *   version      of Weft
 *   processor    name
 *   hardware     label, name of the device, card and driver
 *   measured     label of the device, threads, seconds or "impossible", candidate, group
 *
 * The number of threads is information and no part of the key, since ranks with unlike numbers of
 * threads must choose alike. */
#include <math.h>
#include <stdio.h>

#include "program/tuning.h"

static const char title[] = "weft-tuning\t1", impossible[] = "impossible", host[] = "host";
enum { MOST_FIELDS = 6 };

void tuning_free(tuning **table)
{
    tuning *t = *table;
    *table = NULL;
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) free(t->lines[i].own);
    for (size_t i = 0; i < t->hardware_count; i++) free(t->hardware[i].label);
    free(t->lines);
    free(t->hardware);
    free(t->where);
    free(t->version);
    free(t->processor);
    free(t);
}

/* --- reading --- */

weft_status tuning_damaged(const tuning *t, int number, const char *why)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s:%d: %s; --tune with the name of a new file measures anew",
                     t->where, number, why);
}

/* Adds hardware under a label of its own; the texts are copied into one piece. */
static weft_status add_hardware(tuning *t, const char *label, const char *device,
                                const char *hardware)
{
    tuned_hardware *h;
    size_t a = strlen(label) + 1, b = strlen(device) + 1, c = strlen(hardware) + 1;
    WEFT_TRY(WEFT_GROW(&t->hardware, &t->hardware_capacity, t->hardware_count));
    h = &t->hardware[t->hardware_count];
    WEFT_TRY(WEFT_NEW(&h->label, a + b + c));
    memcpy(h->label, label, a);
    h->device = memcpy(h->label + a, device, b);
    h->hardware = memcpy(h->label + a + b, hardware, c);
    t->hardware_count++;
    return WEFT_OK;
}

static bool has_label(const tuning *t, const char *label)
{
    for (size_t i = 0; i < t->hardware_count; i++)
        if (strcmp(t->hardware[i].label, label) == 0) return true;
    return false;
}

static const measured *find_line(const tuning *t, const char *device, const char *group,
                                 const char *candidate)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->lines[i].group, group) == 0 && strcmp(t->lines[i].device, device) == 0 &&
            strcmp(t->lines[i].candidate, candidate) == 0)
            return &t->lines[i];
    return NULL;
}

/* Takes over `own`, into which the fields point. */
static weft_status take_measured(tuning *t, char *own, char *const *field, int number)
{
    int64_t threads;
    char why[160];
    measured m = {own, field[1], field[4], field[5], 1, INFINITY, number};
    if (!has_label(t, m.device))
        return tuning_damaged(t, number, "no line of hardware before it has this label");
    if (!weft_parse_int(field[2], &threads) || threads < 1 || threads > 1024)
        return tuning_damaged(t, number, "the number of threads is not 1 to 1024");
    m.threads = (int)threads;
    bool right = weft_parse_real(field[3], &m.seconds) && m.seconds > 0 && isfinite(m.seconds);
    if (!right && strcmp(field[3], impossible) != 0)
        return tuning_damaged(t, number,
                              "the seconds are neither a number above 0 nor 'impossible'");
    if (!right) m.seconds = INFINITY;
    const measured *same = find_line(t, m.device, m.group, m.candidate);
    if (same) {
        (void)snprintf(why, sizeof(why), "the measurement is that of line %d again", same->number);
        return tuning_damaged(t, number, why);
    }
    WEFT_TRY(WEFT_GROW(&t->lines, &t->capacity, t->count));
    t->lines[t->count++] = m;
    return WEFT_OK;
}

/* Reads a line, which begins with the name of what it has; *taken: `own` belongs to the table. */
static weft_status take_line(tuning *t, char *own, int number, bool *taken)
{
    char *field[MOST_FIELDS] = {own};
    int count = 1;
    for (char *at = own; (at = strchr(at, '\t')) && count < MOST_FIELDS; count++) {
        *at++ = '\0';
        field[count] = at;
    }
    if (count == 6 && strcmp(own, "measured") == 0) {
        weft_status status = take_measured(t, own, field, number);
        *taken = status == WEFT_OK;
        return status;
    }
    if (count == 4 && strcmp(own, "hardware") == 0)
        return has_label(t, field[1]) ? tuning_damaged(t, number, "an earlier line has this label")
                                      : add_hardware(t, field[1], field[2], field[3]);
    if (count == 2 && strcmp(own, "version") == 0 && !t->version)
        return weft_strdup(field[1], &t->version);
    if (count == 2 && strcmp(own, "processor") == 0 && !t->processor)
        return weft_strdup(field[1], &t->processor);
    return tuning_damaged(t, number, "the line is damaged");
}

static weft_status read_lines(tuning *t, const char *text, size_t size)
{
    const char *end = text + size;
    int number = 0;
    for (const char *at = text, *next; at < end; at = next) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        bool taken = false;
        char *own;
        number++;
        if (!stop) return tuning_damaged(t, number, "the last line is cut off");
        next = stop + 1;
        WEFT_TRY(weft_format(&own, "%.*s", (int)(stop - at), at));
        weft_status status = WEFT_OK;
        if (number == 1 && strcmp(own, title) != 0)
            status = tuning_damaged(t, number,
                                    "this is no table of measurements, or one of another format");
        else if (number > 1)
            status = take_line(t, own, number, &taken);
        if (!taken) free(own);
        WEFT_TRY(status);
    }
    if (!t->version || !t->processor)
        return tuning_damaged(t, number,
                              "the file ends without the version of weft and the processor");
    return WEFT_OK;
}

static weft_status begin(tuning *t)
{
    char processor[200];
    weft_processor_name(processor, sizeof(processor));
    WEFT_TRY(weft_strdup(weft_version(), &t->version));
    return weft_strdup(processor, &t->processor);
}

weft_status tuning_read(const char *text, size_t size, const char *where, tuning **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = weft_strdup(where, &(*out)->where);
    if (status == WEFT_OK) status = text ? read_lines(*out, text, size) : begin(*out);
    if (status != WEFT_OK) tuning_free(out);
    return status;
}

static const char *seconds_text(double seconds, char room[32])
{
    (void)snprintf(room, 32, "%.3e", seconds);
    return isinf(seconds) ? impossible : room;
}

weft_status tuning_text(const tuning *t, char **out)
{
    char room[32];
    weft_text text = {0};
    weft_text_add(&text, "%s\nversion\t%s\nprocessor\t%s\n", title, t->version, t->processor);
    for (size_t i = 0; i < t->hardware_count; i++)
        weft_text_add(&text, "hardware\t%s\t%s\t%s\n", t->hardware[i].label, t->hardware[i].device,
                      t->hardware[i].hardware);
    for (size_t i = 0; i < t->count; i++) {
        const measured *m = &t->lines[i];
        weft_text_add(&text, "measured\t%s\t%d\t%s\t%s\t%s\n", m->device, m->threads,
                      seconds_text(m->seconds, room), m->candidate, m->group);
    }
    return weft_text_take(&text, out);
}

/* --- hardware --- */

static const char *hardware_of(const weft_device *device)
{
    return device->hardware ? device->hardware : host;
}

/* The label of a device's hardware; NULL: the table does not have it. */
static const char *label_of(const tuning *t, const weft_device *device)
{
    for (size_t i = 0; i < t->hardware_count; i++)
        if (strcmp(t->hardware[i].device, device->ops->name) == 0 &&
            strcmp(t->hardware[i].hardware, hardware_of(device)) == 0)
            return t->hardware[i].label;
    return NULL;
}

weft_status tuning_check(const tuning *t, const weft_device *device)
{
    static const char advice[] = "--tune with the name of a new file measures anew";
    char processor[200];
    weft_processor_name(processor, sizeof(processor));
    if (strcmp(t->version, weft_version()) != 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: was measured with weft %s, and this is weft %s; %s", t->where,
                         t->version, weft_version(), advice);
    if (strcmp(t->processor, processor) != 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: was measured on the processor '%s', and this machine has '%s'; %s",
                         t->where, t->processor, processor, advice);
    for (size_t i = 0; i < t->hardware_count && !label_of(t, device); i++)
        if (strcmp(t->hardware[i].device, device->ops->name) == 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: was measured on the %s device '%s', and this one is '%s'; %s",
                             t->where, device->ops->name, t->hardware[i].hardware,
                             hardware_of(device), advice);
    return WEFT_OK;
}

static weft_status make_label(tuning *t, const weft_device *device, const char **out)
{
    char label[80];
    *out = label_of(t, device);
    if (*out) return WEFT_OK;
    (void)snprintf(label, sizeof(label), "%.60s", device->ops->name);
    for (int i = 2; has_label(t, label); i++)
        (void)snprintf(label, sizeof(label), "%.60s#%d", device->ops->name, i);
    WEFT_TRY(add_hardware(t, label, device->ops->name, hardware_of(device)));
    *out = t->hardware[t->hardware_count - 1].label;
    return WEFT_OK;
}

/* --- search --- */

/* Fails since the device does not have the candidate of a line. */
static weft_status fail_candidate(const tuning *t, const measured *m, const weft_device *device,
                                  char names[][TUNING_NAME], int count)
{
    weft_text text = {0};
    char *list;
    for (int i = 0; i < count; i++) weft_text_add(&text, "%s%s", i ? ", " : "", names[i]);
    WEFT_TRY(weft_text_take(&text, &list));
    weft_status status = weft_fail(
        WEFT_ERR_ARGUMENT, "%s:%d: the device %s has no candidate '%.60s' for %.120s; there are %s",
        t->where, m->number, device->ops->name, m->candidate, m->group, list);
    free(list);
    return status;
}

weft_status tuning_find(const tuning *t, const weft_device *device, const char *group,
                        char names[][TUNING_NAME], int count, double *seconds, bool *found)
{
    const char *label = label_of(t, device);
    int have = 0;
    *found = false;
    for (size_t i = 0; i < t->count && label; i++) {
        const measured *m = &t->lines[i];
        int which = 0;
        if (strcmp(m->group, group) != 0 || strcmp(m->device, label) != 0) continue;
        while (which < count && strcmp(names[which], m->candidate) != 0) which++;
        if (which == count) return fail_candidate(t, m, device, names, count);
        seconds[which] = m->seconds;
        have++;
    }
    *found = have == count;
    return WEFT_OK;
}

weft_status tuning_add(tuning *t, const weft_device *device, const char *group,
                       const char *candidate, double seconds)
{
    const char *label;
    char room[32];
    measured m = {.threads = device->threads, .seconds = seconds};
    /* As the text has them: readers of the file must choose the kernels that are chosen here, since
     * the next groups have their layouts. */
    (void)weft_parse_real(seconds_text(seconds, room), &m.seconds);
    WEFT_TRY(make_label(t, device, &label));
    if (find_line(t, label, group, candidate)) return WEFT_OK; /* of an incomplete group */
    WEFT_TRY(WEFT_GROW(&t->lines, &t->capacity, t->count));
    size_t a = strlen(label) + 1, b = strlen(candidate) + 1, c = strlen(group) + 1;
    WEFT_TRY(WEFT_NEW(&m.own, a + b + c));
    m.device = memcpy(m.own, label, a);
    m.candidate = memcpy(m.own + a, candidate, b);
    m.group = memcpy(m.own + a + b, group, c);
    t->lines[t->count++] = m;
    return WEFT_OK;
}
