/* The numbers of a step and of an evaluation, by name, for every format of metrics. */
#include <math.h>

#include "train/metrics.h"

/* The numbers of a step in the order of their lines. With --dtype f64, 12 digits of the loss are
 * exact. */
static const struct {
    const char *key, *group;
    size_t at; /* offset of the double in weft_event */
    int digits;
    bool known; /* 0 is a number; otherwise 0 means that the number is not known */
} of_step[] = {
#define NUMBER(group, key, field, digits, known)                                                   \
    {                                                                                              \
        key, group, offsetof(weft_event, field), digits, known                                     \
    }
    NUMBER("train", "loss", loss, 12, true),
    NUMBER("train", "lr", lr, 9, true),
    NUMBER("train", "noise_scale", noise_scale, 9, false),
    NUMBER("speed", "samples_per_second", samples_per_second, 9, true),
    NUMBER("speed", "comm_bytes", comm_bytes, 9, true),
    NUMBER("speed", "comm_seconds", comm_seconds, 9, true),
    NUMBER("speed", "exposed_comm_seconds", exposed_comm_seconds, 9, true),
    NUMBER("speed", "bubble_fraction", bubble_fraction, 9, true),
    NUMBER("speed", "host_seconds", host_seconds, 9, true),
    NUMBER("device", "device_busy", device_busy, 9, false),
    NUMBER("device", "device_used_bytes", device_used, 0, false),
    NUMBER("device", "device_total_bytes", device_total, 0, false),
    NUMBER("time", "seconds", seconds, 9, true),
#undef NUMBER
};

static bool step_number(const weft_event *e, int i, weft_event_number *out)
{
    for (size_t k = 0; k < WEFT_COUNT(of_step); k++) {
        double value;
        memcpy(&value, (const char *)e + of_step[k].at, sizeof(value));
        if (!of_step[k].known && value == 0) continue;
        if (i-- > 0) continue;
        *out = (weft_event_number){of_step[k].key, of_step[k].group, value, of_step[k].digits};
        return true;
    }
    return false;
}

static bool evaluation_number(const weft_event *e, int i, weft_event_number *out)
{
    weft_figure figure;
    int figures = 0;
    if (weft_report_figure(e->report, i, &figure)) {
        *out = (weft_event_number){figure.name, e->report->part, figure.value, 9};
        return true;
    }
    while (weft_report_figure(e->report, figures, &figure)) figures++;
    bool trains = !isnan(e->train_loss);
    if (trains && i == figures) {
        *out = (weft_event_number){"train_loss", e->report->part, e->train_loss, 9};
        return true;
    }
    *out = (weft_event_number){"seconds", "time", e->seconds, 9};
    return i == figures + trains;
}

bool weft_event_number_at(const weft_event *event, int i, weft_event_number *out)
{
    switch (event->kind) {
    case WEFT_EVENT_STEP: return step_number(event, i, out);
    case WEFT_EVENT_EVAL: return evaluation_number(event, i, out);
    default: return false;
    }
}
