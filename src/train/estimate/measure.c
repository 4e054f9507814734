/* Measures this machine and writes its cluster file. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/option_rows.h"
#include "base/registry.h"
#include "train/estimate/measure.h"

#define AT(field_)                                                                                 \
    .size = sizeof(weft_measure_options), .offset = offsetof(weft_measure_options, field_)
static const weft_option rows[] = {
    OPTION("output", "FILE", TEXT_IS("cluster.yaml"), AT(output), .letter = 'o',
           .help = "the cluster file to write; measured times go to FILE.times"),
    OPTION("seconds", "S", REAL("60", 1, 86400), AT(seconds),
           .help = "measure for so many seconds; more of them find more of the times when nothing "
                   "disturbs the machine"),
    OPTION("overwrite", NULL, FLAG, AT(overwrite), .help = "replace files that exist"),
    OPTION("engine", "NAME", TEXT_IS("threads"), AT(engine), .names = WEFT_KIND_ENGINE,
           .help =
               "the ranks whose transfers are measured; where they are processes, as of mpirun, "
               "each runs this command, and FILE gets the times of their transfers alone"),
    OPTION("ranks", "N", WHOLE("0", 0, WEFT_MAX_RANKS), AT(ranks),
           .help = "measure transfers between up to N ranks; 0: as many as cores, or processes"),
    OPTION("hosts", "NAME,...", TEXT, AT(hosts),
           .help = "measure these machines, of which the first one writes the files, and the links "
                   "between them; with --engine mpi, under a launcher with a process on each"),
    OPTION("transfers", "FILE", TEXT, AT(transfers),
           .help = "add the times of transfers of such a file"),
    OPTION("check", NULL, FLAG, AT(check), .with = "hosts",
           .help = "only look whether a process runs on each of --hosts, which is always done "
                   "before anything is measured"),
    {.name = NULL}};

const weft_option *weft_measure_table(const weft_context *context)
{
    WEFT_NEED_ELSE(NULL, context);
    return weft_context_table(context, rows);
}

weft_status weft_measure_tables_register(weft_context *context)
{
    return weft_context_add_table(context, rows);
}

/* The file of the times has the name of that of the cluster, and this behind it. */
#define TIMES ".times"
enum { TABLE, CLUSTER, OUTPUTS };

typedef struct measuring {
    weft_context *context;
    const weft_measure_options *options;
    weft_measuring rates;
    weft_times *transfers; /* of options->transfers; NULL: none */
    weft_output *outputs[OUTPUTS];
} measuring;

/* --- the files --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static weft_status write_files(const measuring *m, const char *times, double spread)
{
    WEFT_TRY(weft_output_write(m->outputs[TABLE], times, strlen(times)));
    return weft_output_print(
        m->outputs[CLUSTER],
        "# %s, measured by weft %s. machines: add others of this kind by count, and slower "
        "ones\n# with speed, as weft help measure says.\ntimes: %s" TIMES
        "  # two runs of a kernel differed by %.1f %% in the mean\nlatency: 0.0001       # "
        "of links between machines, in seconds; measure yours\nbandwidth: 125e6      # "
        "bytes a second\nmachines:\n  - count: 1\n    cores: %d\n    memory: %.4g\n",
        weft_times_processor(m->rates.times), weft_version(), base_name(m->options->output),
        200 * spread, weft_cores(), (double)weft_memory_limit(""));
}

/* Opens one of the files before anything is measured. ARGUMENT: the file exists, and is not to be
 * replaced. */
static weft_status open_output(measuring *m, int which)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%s%s", m->options->output, which == TABLE ? TIMES : ""));
    weft_status status =
        !m->options->overwrite && weft_file_exists(path)
            ? weft_fail(WEFT_ERR_ARGUMENT, "%s: exists; --overwrite replaces it", path)
            : weft_output_open(path, WEFT_OUTPUT_REPLACE, &m->outputs[which]);
    free(path);
    return status;
}

static weft_status open_outputs(measuring *m)
{
    if (weft_output_is_standard(m->options->output))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "output is '%s', and two files are written; give the name of a file",
                         m->options->output);
    WEFT_TRY(open_output(m, CLUSTER));
    return open_output(m, TABLE);
}

/* The table is there before the file that names it. */
static weft_status close_outputs(measuring *m, weft_status status)
{
    weft_error failure = {.status = WEFT_OK};
    if (status != WEFT_OK) weft_error_catch(&failure, status);
    for (int i = 0; i < OUTPUTS; i++) {
        weft_status closed = weft_output_close(&m->outputs[i], failure.status == WEFT_OK);
        if (closed != WEFT_OK) weft_error_catch(&failure, closed);
    }
    return weft_error_raise(&failure);
}

/* Reads the times of transfers that ranks of another engine have measured, before anything is
 * measured here. */
static weft_status read_transfers(measuring *m)
{
    const char *file = m->options->transfers;
    weft_bytes text = {0};
    if (!file) return WEFT_OK;
    weft_status status = weft_file_read(file, &text);
    if (status == WEFT_OK)
        status = weft_times_read((const char *)text.data, text.size, file, &m->transfers);
    free((void *)(uintptr_t)text.data);
    return status;
}

static weft_status add_transfers(const measuring *m)
{
    return m->transfers ? weft_times_add_all(m->rates.times, m->transfers) : WEFT_OK;
}

/* In a process of several, whose first rank writes the table. */
static weft_status measure_ranks(measuring *m, size_t *count, double *spread)
{
    char *text = NULL;
    bool first = false;
    WEFT_TRY(weft_times_new(&m->rates.times));
    WEFT_TRY(weft_measure_transfers(m->context, m->options->engine, (int)m->options->ranks,
                                    &m->rates.end, m->rates.times, &first));
    *count = weft_times_count(m->rates.times);
    *spread = 0;
    if (*count == 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "engine %s: there is one rank, and transfers need two; a launcher starts "
                         "them, as mpirun -n 2 weft measure --engine %s -o FILE",
                         m->options->engine, m->options->engine);
    if (!first) return WEFT_OK;
    WEFT_TRY(weft_times_text(m->rates.times, &text));
    weft_status status =
        weft_output_open(m->options->output, WEFT_OUTPUT_REPLACE, &m->outputs[TABLE]);
    if (status == WEFT_OK) status = weft_output_write(m->outputs[TABLE], text, strlen(text));
    free(text);
    return status;
}

/* --- several machines --- */

static void describe_machine(const measuring *m, double spread, weft_measured_machine *out)
{
    *out = (weft_measured_machine){
        .cores = weft_cores(), .memory = (double)weft_memory_limit(""), .spread = spread};
    if (gethostname(out->name, sizeof(out->name) - 1) != 0) (void)strcpy(out->name, "unnamed");
    weft_make_printable(out->name);
    (void)snprintf(out->processor, sizeof(out->processor), "%s",
                   weft_times_processor(m->rates.times));
    memcpy(out->seconds, m->rates.seconds, sizeof(out->seconds));
}

typedef struct machines {
    weft_comm *comm;
    weft_measured_machine *all;
    double *latency, *bandwidth; /* [ranks, ranks]; row 0 is that of this rank before */
    int count;
} machines;

/* Rows of all ranks, of which this one has its own. */
static weft_status gather_links(const machines *k, double *links)
{
    size_t me = (size_t)weft_comm_rank(k->comm) * (size_t)k->count;
    return weft_comm_run(k->comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_F64,
                                                .what = "measured links", .send = links + me,
                                                .receive = links, .count = k->count));
}

static weft_status write_machines(const measuring *m, const machines *k, const char *times)
{
    char name[512], *text;
    weft_text cluster = {0};
    (void)snprintf(name, sizeof(name), "%s" TIMES, base_name(m->options->output));
    WEFT_TRY(
        weft_machines_text(m->context, k->all, k->count, k->latency, k->bandwidth, name, &cluster));
    WEFT_TRY(weft_text_take(&cluster, &text));
    weft_status status = weft_output_write(m->outputs[TABLE], times, strlen(times));
    if (status == WEFT_OK) status = weft_output_write(m->outputs[CLUSTER], text, strlen(text));
    free(text);
    return status;
}

/* The first rank has the times of its machine, and the others those of their steps. */
static weft_status measure_machines(measuring *m, const machines *k, size_t *count, double *spread)
{
    char *text = NULL;
    weft_measured_machine own;
    int me = weft_comm_rank(k->comm);
    size_t row = (size_t)me * (size_t)k->count;
    if (me == 0) WEFT_TRY(open_outputs(m));
    if (me == 0) WEFT_TRY(read_transfers(m));
    /* The half of the time at most; links of few machines take seconds. */
    WEFT_TRY(weft_measure_links(k->comm, m->options->seconds / 2, &m->rates.end, k->latency + row,
                                k->bandwidth + row));
    WEFT_TRY(weft_measure_rates(&m->rates));
    if (me == 0) WEFT_TRY(add_transfers(m));
    WEFT_TRY(weft_times_text(m->rates.times, &text));
    weft_status status = weft_times_index(m->rates.times);
    *spread = weft_times_spread(m->rates.times);
    *count = weft_times_count(m->rates.times);
    describe_machine(m, *spread, &own);
    if (status == WEFT_OK) status = weft_machines_gather(k->comm, &own, k->all);
    if (status == WEFT_OK) status = gather_links(k, k->latency);
    if (status == WEFT_OK) status = gather_links(k, k->bandwidth);
    if (status == WEFT_OK && me == 0) status = write_machines(m, k, text);
    free(text);
    return status;
}

static weft_status check_machines(const machines *k)
{
    if (k->count < 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "hosts: there is one rank, and links need two machines; give the names of "
                         "several, with commas between them");
    if (weft_comm_local_size(k->comm) == 1) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "hosts: %d ranks are on one machine, and each measures all of it; give each "
                     "machine one rank",
                     weft_comm_local_size(k->comm));
}

/* In one process on each machine. */
static weft_status measure_hosts(measuring *m, size_t *count, double *spread)
{
    machines k = {.comm = NULL};
    int local;
    weft_comm **comms;
    *count = 0;
    *spread = 0;
    WEFT_TRY(weft_times_new(&m->rates.times));
    WEFT_TRY(WEFT_NEW(&comms, WEFT_MAX_RANKS));
    weft_status status = weft_comm_open(m->context, m->options->engine, 0, comms, &local);
    k.comm = comms[0];
    free((void *)comms);
    WEFT_TRY(status);
    k.count = weft_comm_size(k.comm);
    size_t pairs = (size_t)k.count * (size_t)k.count;
    status = check_machines(&k);
    if (status == WEFT_OK) status = WEFT_NEW(&k.all, k.count);
    if (status == WEFT_OK) status = WEFT_NEW(&k.latency, pairs);
    if (status == WEFT_OK) status = WEFT_NEW(&k.bandwidth, pairs);
    if (status == WEFT_OK && !m->options->check) status = measure_machines(m, &k, count, spread);
    if (status != WEFT_OK) weft_comm_abort(k.comm);
    weft_comm_close(&k.comm);
    free(k.all);
    free(k.latency);
    free(k.bandwidth);
    return status;
}

static weft_status measure(measuring *m, size_t *count, double *spread)
{
    char *text = NULL;
    WEFT_TRY(open_outputs(m));
    WEFT_TRY(read_transfers(m));
    WEFT_TRY(weft_times_new(&m->rates.times));
    WEFT_TRY(weft_measure_rates(&m->rates));
    WEFT_TRY(add_transfers(m));
    /* The text has all measurements, the index their medians. */
    WEFT_TRY(weft_times_text(m->rates.times, &text));
    weft_status status = weft_times_index(m->rates.times);
    if (status == WEFT_OK) *spread = weft_times_spread(m->rates.times);
    if (status == WEFT_OK) *count = weft_times_count(m->rates.times);
    if (status == WEFT_OK) status = write_files(m, text, *spread);
    free(text);
    return status;
}

static weft_status measure_with(measuring *m, bool launched, size_t *times, double *spread)
{
    if (!launched && m->options->hosts)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "hosts: each of them needs a process, and engine %s has none there; the "
                         "command weft measure starts them, or a launcher with --engine mpi",
                         m->options->engine);
    if (!launched) return measure(m, times, spread);
    return m->options->hosts ? measure_hosts(m, times, spread) : measure_ranks(m, times, spread);
}

weft_status weft_measure(weft_context *context, const weft_measure_options *options,
                         const weft_stop *stop, weft_measure_fn fn, void *user, size_t *times,
                         double *spread)
{
    WEFT_NEED(context, options, times, spread);
    weft_measure_options own;
    WEFT_TRY(weft_options_take(rows, options, &own));
    WEFT_CHECK_ROOM("weft_measure_options", &own);
    if (own.hosts) own.seconds *= 0.8; /* the rest is for processes that begin and end */
    measuring m = {.context = context,
                   .options = &own,
                   .rates = {.context = context,
                             .options = &own,
                             .end = {.stop = stop, .line = {.deaf = true}, .output = own.output},
                             .fn = fn,
                             .user = user,
                             .begun = weft_seconds()}};
    const weft_train_engine *engine = weft_train_engine_of(own.engine);
    weft_status status = WEFT_OK;
    if (engine->members)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "engine %s: the ranks of its learners are threads; leave --engine out",
                           own.engine);
    if (status == WEFT_OK && engine->launched) weft_status_page_open(&m.rates.end.line);
    if (status == WEFT_OK) status = measure_with(&m, engine->launched, times, spread);
    status = close_outputs(&m, status);
    /* The supervisor of the ranks takes one that ends without this for lost. */
    if (status == WEFT_OK)
        weft_status_page_stage(&m.rates.end.line, weft_job_rank(), WEFT_STAGE_FINISHED);
    weft_status_page_close(&m.rates.end.line);
    weft_times_free(&m.rates.times);
    weft_times_free(&m.transfers);
    return status;
}
