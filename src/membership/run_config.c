/* Compares run configurations, which are pairs of a name and a text. */
#include "membership/run_config.h"

#include <stdio.h>

/* Longest text that an error message shows; longer texts are the contents of files. */
enum { MOST_SHOWN = 60 };

/* Whether a run configuration has pairs of a name and a text, each with a zero byte at its end. */
static bool is_pairs(const weft_buffer *blob)
{
    const char *bytes = blob->data;
    size_t ends = 0;
    for (size_t i = 0; i < blob->bytes; i++) ends += !bytes[i];
    return blob->bytes > 0 && !bytes[blob->bytes - 1] && ends % 2 == 0;
}

static const char *text_of(const char *name)
{
    return name + strlen(name) + 1;
}

static const char *next(const char *name)
{
    const char *text = text_of(name);
    return text + strlen(text) + 1;
}

static const char *end_of(const weft_buffer *blob)
{
    return (const char *)blob->data + blob->bytes;
}

/* The text of an option; NULL: the configuration does not have it. */
static const char *find(const weft_buffer *in, const char *name)
{
    for (const char *at = in->data; at < end_of(in); at = next(at))
        if (strcmp(at, name) == 0) return text_of(at);
    return NULL;
}

static bool is_shown(const char *text)
{
    return !text || (strlen(text) <= MOST_SHOWN && !strchr(text, '\n'));
}

static void describe(const char *name, const char *there, const char *here, char *reason,
                     size_t size)
{
    if (*name == '@') name++;
    if (is_shown(there) && is_shown(here))
        (void)snprintf(reason, size, "%.40s is %s there and %s here", name,
                       there ? there : "not given", here ? here : "not given");
    else
        (void)snprintf(reason, size, "%.40s differs", name);
}

static bool counts(const char *name)
{
    static const char begun[] = "@begun";
    return strncmp(name, begun, sizeof(begun) - 1) != 0;
}

void weft_run_config_compare(const weft_buffer *runs, const weft_buffer *coordinators, char *reason,
                             size_t size)
{
    *reason = '\0';
    if (!runs || !coordinators) return;
    if (!is_pairs(runs) || !is_pairs(coordinators)) {
        if (runs->bytes != coordinators->bytes ||
            memcmp(runs->data, coordinators->data, runs->bytes) != 0)
            (void)snprintf(reason, size, "its run configuration has another format");
        return;
    }
    for (const char *at = runs->data; at < end_of(runs) && !*reason; at = next(at)) {
        const char *here = find(coordinators, at);
        if (counts(at) && (!here || strcmp(text_of(at), here) != 0))
            describe(at, text_of(at), here, reason, size);
    }
    for (const char *at = coordinators->data; at < end_of(coordinators) && !*reason; at = next(at))
        if (counts(at) && !find(runs, at)) describe(at, NULL, text_of(at), reason, size);
}

int64_t weft_run_config_first_step(const weft_buffer *configuration)
{
    int64_t step = 0;
    const char *text =
        configuration && is_pairs(configuration) ? find(configuration, "@begun.step") : NULL;
    return text && weft_parse_int(text, &step) ? step : 0;
}
