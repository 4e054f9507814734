/* Prints the memory of a run (weft plan): of its ranks, processes and machines, whether that is
 * there, and what would take less. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
enum { UNITS = sizeof(units) / sizeof(*units) };

static const char *memory_text(double bytes, char out[32])
{
    int u = 0;
    for (; bytes >= 999.5 && u < UNITS - 1; u++) bytes /= 1000;
    (void)snprintf(out, 32, "%.4g %s", bytes, units[u]);
    return out;
}

weft_status plan_memory_size(const char *text, double *out)
{
    char *end;
    double bytes = strtod(text, &end);
    for (int u = 0; u < UNITS; u++, bytes *= 1000)
        if (end != text && strcmp(end, units[u]) == 0 && bytes > 0 && bytes < 1e18) {
            *out = bytes;
            return WEFT_OK;
        }
    fprintf(stderr, "weft: --memory is '%s', must be a number with a unit, as in 16GB or 500MB\n",
            text);
    return WEFT_ERR_ARGUMENT;
}

static double sum_of(const weft_memory_estimate *m, int rank)
{
    double sum = 0;
    for (int p = 0; p < WEFT_MEMORY_PARTS; p++) sum += m->part[rank * WEFT_MEMORY_PARTS + p];
    return sum;
}

static bool any(const weft_memory_estimate *m, int part)
{
    double sum = 0;
    for (int r = 0; r < m->ranks; r++) sum += m->part[r * WEFT_MEMORY_PARTS + part];
    return sum > 0;
}

/* A line for each rank, with the parts that some rank has. */
static void put_ranks(FILE *to, const weft_memory_estimate *m)
{
    char text[32];
    fprintf(to, "%4s", "rank");
    for (int p = 0; p < WEFT_MEMORY_PARTS; p++)
        if (any(m, p)) fprintf(to, "  %11s", weft_memory_part_name((weft_memory_part)p));
    fprintf(to, "  %11s  %11s\n", "all", "for moments");
    for (int r = 0; r < m->ranks; r++) {
        fprintf(to, "%4d", r);
        for (int p = 0; p < WEFT_MEMORY_PARTS; p++) {
            double bytes = m->part[r * WEFT_MEMORY_PARTS + p];
            if (any(m, p)) fprintf(to, "  %11s", memory_text(bytes, text));
        }
        fprintf(to, "  %11s", memory_text(sum_of(m, r), text));
        fprintf(to, "  %11s\n", memory_text(m->moment[r], text));
    }
}

static void print_ranks(const weft_memory_estimate *m)
{
    folded_table t;
    printf("\nMemory of the host at the peak:\n");
    folded_table_begin(&t);
    put_ranks(t.to, m);
    folded_table_end(&t);
}

static void print_processes(const weft_memory_estimate *m)
{
    char shared[32], process[32];
    printf("%.0f parameters; a process takes %s for the program, libraries, kernels and data\n",
           m->parameters, memory_text(m->shared, shared));
    printf("%d process%s with %s%d rank%s: %s%s\n", m->processes, m->processes == 1 ? "" : "es",
           m->each > 1 && m->processes > 1 ? "up to " : "", m->each, m->each == 1 ? "" : "s",
           memory_text(m->process, process), m->processes == 1 ? "" : " the largest");
}

/* The processes that have no ranks. */
static void print_others(const weft_memory_estimate *m)
{
    char text[32];
    if (m->supervisor <= 0) return;
    printf("beside %s", m->processes == 1 ? "it" : "them");
    if (m->servers > 0)
        printf(" %d server%s of %s,", m->servers, m->servers == 1 ? "" : "s",
               memory_text(m->server, text));
    if (m->coordinator > 0) printf(" the coordinator with %s,", memory_text(m->coordinator, text));
    printf(" %s to start and watch processes%s\n", memory_text(m->supervisor, text),
           m->coordinator > 0 ? "" : "; the launcher of MPI is not counted");
}

/* Whether the memory of a machine is enough; limit: bytes, 0: not known. */
static void print_fit(FILE *to, double bytes, double limit)
{
    char need[32], there[32], rest[32];
    bool fits = bytes <= limit;
    fprintf(to, "%s on the fullest machine", memory_text(bytes, need));
    if (limit <= 0) return;
    fprintf(to, "; fits in %s: %s, %s %s", memory_text(limit, there), fits ? "yes" : "no",
            memory_text(fits ? limit - bytes : bytes - limit, rest),
            fits ? "to spare" : "too much");
}

/* --- what would take less --- */

/* Options of which each may take less memory. */
static const struct change {
    const char *name, *value;
} changes[] = {
    {"recompute", "true"}, {"zero", "1"},         {"zero", "2"},         {"zero", "3"},
    {"dtype", "bf16"},     {"microbatches", "2"}, {"microbatches", "4"}, {"microbatches", "8"},
};
enum { CHANGES = sizeof(changes) / sizeof(*changes) };

/* Whether the run has the change, or more of it. */
static bool has(const weft_option *table, const weft_train_options *options, const struct change *c)
{
    char *value = NULL;
    bool is = weft_options_get(table, options, c->name, &value) != WEFT_OK || !value ||
              strcmp(value, c->value) == 0 || (atoi(c->value) > 0 && atoi(value) >= atoi(c->value));
    weft_free(value);
    return is;
}

/* The bytes of the fullest machine with the changes of a list; false: the run cannot have them. */
static bool try_changes(weft_context *context, const weft_train_options *options,
                        const char *cluster, const bool chosen[CHANGES], double *out)
{
    weft_train_options changed = {0};
    weft_memory_estimate m = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = weft_train_options_copy(context, options, &changed);
    for (int i = 0; i < CHANGES && status == WEFT_OK; i++)
        if (chosen[i])
            status = weft_options_set(table, &changed, changes[i].name, changes[i].value);
    if (status == WEFT_OK) status = weft_estimate_memory(context, &changed, cluster, &m);
    *out = m.machine;
    weft_memory_estimate_free(&m);
    weft_options_free(table, &changed);
    return status == WEFT_OK;
}

static void print_chosen(FILE *to, const bool chosen[CHANGES])
{
    for (int i = 0; i < CHANGES; i++) {
        bool flag = strcmp(changes[i].value, "true") == 0;
        if (chosen[i])
            fprintf(to, " --%s%s%s", changes[i].name, flag ? "" : " ",
                    flag ? "" : changes[i].value);
    }
}

static void print_changed(const bool chosen[CHANGES], double bytes, double limit)
{
    char text[32];
    printf(" ");
    print_chosen(stdout, chosen);
    printf(": %s%s\n", memory_text(bytes, text), bytes <= limit ? ", which fits" : "");
}

/* Tries the changes one by one, then the best of each option together, and says what they take. */
static void print_changes(weft_context *context, const weft_train_options *options,
                          const char *cluster, double now, double limit)
{
    bool best[CHANGES] = {false};
    int of_name = -1, options_found = 0;
    double least = now, bytes;
    printf("with other options it would take:\n");
    for (int i = 0; i < CHANGES; i++) {
        bool one[CHANGES] = {false};
        if (i == 0 || strcmp(changes[i].name, changes[i - 1].name) != 0) {
            of_name = -1;
            least = now;
        }
        one[i] = true;
        if (has(weft_train_table(context), options, &changes[i]) ||
            !try_changes(context, options, cluster, one, &bytes) || bytes >= now)
            continue;
        print_changed(one, bytes, limit);
        if (bytes >= least) continue;
        if (of_name >= 0) best[of_name] = false;
        options_found += of_name < 0;
        best[of_name = i] = true;
        least = bytes;
    }
    if (options_found > 1 && try_changes(context, options, cluster, best, &bytes))
        print_changed(best, bytes, limit);
    else if (options_found == 0)
        printf("  not less with any that was tried\n");
}

/* The first change with which a run fits, or the greatest of all options; false: none does. */
static bool find_fitting(weft_context *context, const weft_train_options *options,
                         const char *cluster, double limit, bool chosen[CHANGES])
{
    double bytes;
    bool all[CHANGES];
    for (int i = 0; i < CHANGES; i++) {
        bool lacks = !has(weft_train_table(context), options, &changes[i]);
        bool last = i + 1 == CHANGES || strcmp(changes[i].name, changes[i + 1].name) != 0;
        memset(chosen, 0, CHANGES * sizeof(*chosen));
        all[i] = lacks && last;
        chosen[i] = lacks;
        if (lacks && try_changes(context, options, cluster, chosen, &bytes) && bytes <= limit)
            return true;
    }
    memcpy(chosen, all, sizeof(all));
    return try_changes(context, options, cluster, chosen, &bytes) && bytes <= limit;
}

static char *lack_text(weft_context *context, const weft_train_options *options,
                       const char *cluster, double bytes, double limit)
{
    bool chosen[CHANGES];
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    print_fit(to, bytes, limit);
    if (find_fitting(context, options, cluster, limit, chosen)) {
        fprintf(to, "; fits with");
        print_chosen(to, chosen);
    }
    return fclose(to) == 0 ? text : NULL;
}

char *plan_memory_lack(weft_context *context, const weft_train_options *options,
                       const char *cluster, const weft_step_estimate *step)
{
    return lack_text(context, options, cluster, step->memory, step->memory_limit);
}

char *memory_lack(weft_context *context, const weft_train_options *options, const char *cluster)
{
    weft_memory_estimate m = {0};
    weft_train_options run = {0};
    char *text = NULL;
    int64_t machines;
    weft_status status = weft_train_options_copy(context, options, &run);
    if (status == WEFT_OK) status = weft_cluster_machines(cluster, &machines);
    if (status == WEFT_OK && run.job.ranks <= 1) run.job.ranks = machines;
    if (status == WEFT_OK) status = weft_estimate_memory(context, &run, cluster, &m);
    if (status == WEFT_OK && m.limit > 0 && m.machine > m.limit)
        text = lack_text(context, &run, cluster, m.machine, m.limit);
    weft_memory_estimate_free(&m);
    weft_options_free(weft_train_table(context), &run);
    return text;
}

double plan_memory(weft_context *context, const weft_train_options *options, const char *cluster,
                   double limit, const weft_memory_estimate *m)
{
    if (limit <= 0) limit = m->limit;
    double lack = limit > 0 && m->machine > limit ? m->machine - limit : 0;
    print_ranks(m);
    print_processes(m);
    print_others(m);
    print_fit(stdout, m->machine, limit);
    printf("\n");
    if (lack > 0) print_changes(context, options, cluster, m->machine, limit);
    return lack;
}
