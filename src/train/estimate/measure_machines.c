/* Writes the machines of a cluster file from what each has measured: machines that are equal, but
 * for how far measurements differ, are one kind, with a count. */
#include <math.h>
#include <stdio.h>

#include "base/sort.h"
#include "train/estimate/measure.h"

/* Machines whose rates, and ends of links whose measurements, differ by less may be equal. */
static const double equal_speed = 0.05, equal_link = 0.1, equal_memory = 0.03;
/* Runs of one kernel differ by more on a machine that is busy. */
static const double busy_spread = 0.05;
/* A link is unlike those of its ends by so much, and seconds. */
static const double unlike_link = 0.25, unlike_seconds = 5e-5;

typedef struct figures {
    const weft_measured_machine *all;
    int count;
    const double *latency, *bandwidth; /* [count, count], from row to column */
    double *speed, *late, *wide; /* [count]: of each, relative to the first; of its end of links */
    int *kind, kinds;            /* [count] */
} figures;

weft_status weft_machines_gather(weft_comm *comm, const weft_measured_machine *own,
                                 weft_measured_machine *all)
{
    _Static_assert(sizeof(*own) % sizeof(float) == 0, "its bytes are sent as numbers");
    return weft_comm_run(
        comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_F32, .what = "measured machines",
                            .send = own, .receive = all, .count = sizeof(*own) / sizeof(float)));
}

/* --- figures --- */

/* The median over the networks that both have measured. */
static double speed_of(const weft_measured_machine *m, const weft_measured_machine *first)
{
    double ratios[WEFT_MEASURED_NETWORKS];
    size_t count = 0;
    for (int i = 0; i < WEFT_MEASURED_NETWORKS; i++)
        if (m->seconds[i] > 0 && first->seconds[i] > 0)
            ratios[count++] = first->seconds[i] / m->seconds[i];
    weft_sort_doubles(ratios, count);
    return count > 0 ? ratios[count / 2] : 1;
}

static double both_ways(const figures *f, const double *links, int a, int b)
{
    return (links[a * f->count + b] + links[b * f->count + a]) / 2;
}

/* The worse end of a link counts, so the end of a machine is the best of its links. */
static void find_ends(figures *f)
{
    for (int a = 0; a < f->count; a++) {
        f->late[a] = INFINITY;
        for (int b = 0; b < f->count; b++) {
            if (b == a) continue;
            f->late[a] = WEFT_MIN(f->late[a], both_ways(f, f->latency, a, b));
            f->wide[a] = WEFT_MAX(f->wide[a], both_ways(f, f->bandwidth, a, b));
        }
    }
}

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * WEFT_MAX(fabs(a), fabs(b));
}

static bool equal(const figures *f, int a, int b)
{
    const weft_measured_machine *x = &f->all[a], *y = &f->all[b];
    double spread = 2 * WEFT_MAX(x->spread, y->spread);
    return strcmp(x->processor, y->processor) == 0 && x->cores == y->cores &&
           near(x->memory, y->memory, equal_memory) &&
           near(f->speed[a], f->speed[b], WEFT_MAX(equal_speed, spread)) &&
           near(f->late[a], f->late[b], equal_link) && near(f->wide[a], f->wide[b], equal_link);
}

static void find_kinds(figures *f)
{
    for (int a = 0; a < f->count; a++) {
        int b = 0;
        while (b < a && !equal(f, a, b)) b++;
        f->kind[a] = b < a ? f->kind[b] : f->kinds++;
    }
}

static double mean_of(const figures *f, const double *values, int kind)
{
    double sum = 0, count = 0;
    for (int a = 0; a < f->count; a++)
        if (f->kind[a] == kind) sum += values[a], count++;
    return sum / count;
}

/* --- text --- */

/* The names of the machines of a kind, or of all in the order of the file, each with `behind`. */
static void add_names(const figures *f, int kind, const char *behind, weft_text *out)
{
    bool first = true;
    for (int k = 0; k < f->kinds; k++)
        for (int a = 0; a < f->count; a++) {
            if (f->kind[a] != k || (kind >= 0 && kind != k)) continue;
            weft_text_add(out, "%s%s%s", first ? "" : ",", f->all[a].name, behind);
            first = false;
        }
}

static void add_kind(const figures *f, int kind, weft_text *out)
{
    int first = 0, count = 0;
    for (int a = f->count; a-- > 0;)
        if (f->kind[a] == kind) first = a, count++;
    const weft_measured_machine *m = &f->all[first];
    double speed = kind == 0 ? 1 : mean_of(f, f->speed, kind);
    weft_text_add(out, "  # ");
    add_names(f, kind, "", out);
    weft_text_add(out, ": %s\n  - {count: %d, cores: %.0f, memory: %.3g", m->processor, count,
                  m->cores, m->memory);
    if (kind > 0) weft_text_add(out, ", speed: %.3g", speed);
    weft_text_add(out, ", latency: %.3g, bandwidth: %.4g}\n", mean_of(f, f->late, kind),
                  mean_of(f, f->wide, kind));
}

/* Warns of a machine, in the file and in the log. */
static void warn(weft_context *context, weft_text *out, const char *text)
{
    weft_text_add(out, "# %s\n", text);
    weft_log(context, WEFT_LOG_WARNING, "%s", text);
}

static void add_warnings(const figures *f, weft_context *context, weft_text *out)
{
    char text[1200];
    for (int a = 0; a < f->count; a++) {
        const weft_measured_machine *m = &f->all[a];
        if (m->spread > busy_spread) {
            (void)snprintf(text, sizeof(text),
                           "%s was busy: two runs of a kernel differed by %.0f %% in the mean; "
                           "measure again when it is idle",
                           m->name, 200 * m->spread);
            warn(context, out, text);
        }
        if (strcmp(m->processor, f->all[0].processor) == 0) continue;
        (void)snprintf(text, sizeof(text),
                       "%s has another processor than %s (%.100s): the times of its kernels are "
                       "those of %s by one speed; measure there for a file of its own",
                       m->name, f->all[0].name, m->processor, f->all[0].name);
        warn(context, out, text);
    }
}

/* Each machine has one line to the network in the file; a link between two that is not as their
 * lines is told. */
static void add_unlike_links(const figures *f, weft_context *context, weft_text *out)
{
    char text[1200];
    for (int a = 0; a < f->count; a++)
        for (int b = a + 1; b < f->count; b++) {
            double late = both_ways(f, f->latency, a, b), told = WEFT_MAX(f->late[a], f->late[b]);
            double wide = both_ways(f, f->bandwidth, a, b);
            double told_wide = WEFT_MIN(f->wide[a], f->wide[b]);
            bool slow = late > (1 + unlike_link) * told + unlike_seconds;
            if (!slow && wide > (1 - unlike_link) * told_wide) continue;
            (void)snprintf(text, sizeof(text),
                           "the link between %s and %s has %.3g s and %.3g bytes a second, and "
                           "their lines to others have %.3g s and %.3g: a cluster file has one "
                           "line for each machine",
                           f->all[a].name, f->all[b].name, late, wide, told, told_wide);
            warn(context, out, text);
        }
}

static void write_text(const figures *f, weft_context *context, const char *times, weft_text *out)
{
    weft_text_add(out,
                  "# %d machine%s, measured by weft %s. In the order of this file:\n# --hosts ",
                  f->count, weft_plural(f->count), weft_version());
    add_names(f, -1, ":1", out);
    weft_text_add(out, "\n");
    add_warnings(f, context, out);
    add_unlike_links(f, context, out);
    weft_text_add(out,
                  "times: %s  # of %s; two runs of a kernel differed by %.1f %% in the mean\n"
                  "latency: %.3g  # of links between machines, in seconds\n"
                  "bandwidth: %.4g  # bytes a second that a machine sends, and that it receives\n"
                  "machines:\n",
                  times, f->all[0].name, 200 * f->all[0].spread, mean_of(f, f->late, 0),
                  mean_of(f, f->wide, 0));
    for (int k = 0; k < f->kinds; k++) add_kind(f, k, out);
}

weft_status weft_machines_text(weft_context *context, const weft_measured_machine *all, int count,
                               const double *latency, const double *bandwidth, const char *times,
                               weft_text *out)
{
    figures f = {.all = all, .count = count, .latency = latency, .bandwidth = bandwidth};
    weft_status status = WEFT_NEW(&f.speed, count);
    if (status == WEFT_OK) status = WEFT_NEW(&f.late, count);
    if (status == WEFT_OK) status = WEFT_NEW(&f.wide, count);
    if (status == WEFT_OK) status = WEFT_NEW(&f.kind, count);
    if (status == WEFT_OK) {
        for (int a = 0; a < count; a++) f.speed[a] = speed_of(&all[a], &all[0]);
        find_ends(&f);
        find_kinds(&f);
        write_text(&f, context, times, out);
    }
    free(f.speed);
    free(f.late);
    free(f.wide);
    free(f.kind);
    return status;
}
