/* Parses the lists of --rate and --closed: "100,200", "100..800:100", "50@10,400@2". */
#include <math.h>

#include "load/load.h"
#include "load/measure.h"

typedef struct reader {
    const weft_load_options *options;
    const char *option; /* "--rate" or "--closed" */
    double most;
    bool whole;
    weft_load_rate *all;
    size_t count, capacity;
} reader;

static weft_status add(reader *r, double value, double seconds)
{
    if (!(value > 0 && value <= r->most) || (r->whole && value != floor(value)))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: %g must be %s above 0 and at most %g", r->option,
                         value, r->whole ? "a whole number" : "a number of requests a second",
                         r->most);
    if (r->count == WEFT_MOST_RATES)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: these are more than %d", r->option,
                         WEFT_MOST_RATES);
    WEFT_TRY(WEFT_GROW(&r->all, &r->capacity, r->count));
    r->all[r->count++] = r->whole ? (weft_load_rate){.seconds = seconds, .closed = (int64_t)value}
                                  : (weft_load_rate){.rate = value, .seconds = seconds};
    return WEFT_OK;
}

static weft_status bad(const reader *r, const char *piece)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: '%s' is %s; give it as in %s, %s, or %s with its own seconds", r->option,
                     piece, r->whole ? "no number of requests" : "no rate",
                     r->whole ? "4" : "100,200", r->whole ? "1..16:5" : "100..800:100",
                     r->whole ? "4@30" : "100@30");
}

/* Adds the rates of LOW..HIGH:STEP, including HIGH if a step ends there. */
static weft_status add_range(reader *r, char *piece, char *dots, double seconds)
{
    double low, high, step;
    char *colon = strchr(dots, ':');
    if (!colon) return bad(r, piece);
    *dots = *colon = '\0';
    bool fits = weft_parse_real(piece, &low) && weft_parse_real(dots + 2, &high) &&
                weft_parse_real(colon + 1, &step);
    *dots = '.';
    *colon = ':';
    if (!fits || !(step > 0) || !(high >= low) || !isfinite(high)) return bad(r, piece);
    for (int64_t i = 0; low + (double)i * step <= high * (1 + 1e-12); i++)
        WEFT_TRY(add(r, low + (double)i * step, seconds));
    return WEFT_OK;
}

static weft_status read_piece(void *user, char *piece)
{
    reader *r = user;
    double value, seconds = r->options->seconds;
    char *at = strchr(piece, '@'), *dots;
    if (at) {
        *at = '\0';
        if (!weft_parse_real(at + 1, &seconds) || !(seconds > 0 && seconds <= 1e6)) {
            *at = '@';
            return bad(r, piece);
        }
    }
    dots = strstr(piece, "..");
    if (dots) return add_range(r, piece, dots, seconds);
    return weft_parse_real(piece, &value) ? add(r, value, seconds) : bad(r, piece);
}

weft_status weft_load_rates_parse(const weft_context *context, const weft_load_options *options,
                                  weft_load_rate **out, int *count)
{
    bool closed = options->closed != NULL;
    reader r = {.options = options,
                .option = closed ? "--closed" : "--rate",
                .most = closed ? 65536 : 1e7,
                .whole = closed};
    bool timed = weft_arrivals_are_timed(context, options->arrivals);
    const char *text = closed ? options->closed : options->rate ? options->rate : "100";
    weft_status status = WEFT_OK;
    *out = NULL;
    if (closed && options->rate)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--rate and --closed exclude each other: requests are sent at a rate, or "
                         "each when an earlier one was answered");
    if (closed && options->no_pause)
        return weft_fail(WEFT_ERR_ARGUMENT, "--no-pause is for rates, not for --closed");
    if (closed && options->arrivals)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--arrivals is for rates, not for --closed, which sends a request when an "
                         "earlier one was answered");
    if (timed && !options->rate && !closed) {
        status = WEFT_GROW(&r.all, &r.capacity, 0);
        if (status == WEFT_OK) r.all[r.count++] = (weft_load_rate){.seconds = options->seconds};
    } else {
        status = weft_each_piece(r.option, text, read_piece, &r);
    }
    if (status != WEFT_OK) {
        free(r.all);
        return status;
    }
    *out = r.all;
    *count = (int)r.count;
    return WEFT_OK;
}
