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
    OPTION("transfers", "FILE", TEXT, AT(transfers),
           .help = "add the times of transfers of such a file"),
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
    const weft_stop *stop;
    weft_measure_fn fn;
    void *user;
    weft_times *times;
    weft_measured_setting settings[16];
    int setting_count;
    double begun;
    char *text; /* temporary file of the networks of texts; NULL: not written yet */
    int file;   /* its descriptor, below 0: none */
    weft_output *outputs[OUTPUTS];
} measuring;

/* One rank with all cores, all cores with a rank each, and the powers of two between them. */
static void find_settings(measuring *m)
{
    int cores = weft_cores();
    m->settings[m->setting_count++] = (weft_measured_setting){cores, 1};
    for (int threads = cores / 2; threads > 1 && m->setting_count < 15; threads /= 2)
        m->settings[m->setting_count++] = (weft_measured_setting){threads, cores / threads};
    if (cores > 1) m->settings[m->setting_count++] = (weft_measured_setting){1, cores};
}

/* Writes a temporary file of a name that no other file has, which is locked until it is removed. */
static weft_status put_text(measuring *m, const char *text, size_t size)
{
    const char *root = getenv("TMPDIR");
    char *target;
    WEFT_TRY(weft_format(&target, "%s/weft-measure", root ? root : "/tmp"));
    weft_status status = weft_beside_tidy(target);
    if (status == WEFT_OK) status = weft_beside_open(target, 0600, &m->text, &m->file);
    free(target);
    WEFT_TRY(status);
    while (m->file >= 0 && size > 0) {
        ssize_t n = write(m->file, text, size);
        if (n < 0 && errno != EINTR) break;
        text += WEFT_MAX(n, (ssize_t)0);
        size -= (size_t)WEFT_MAX(n, (ssize_t)0);
    }
    if (m->file >= 0 && size == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_IO, "%s: cannot write: %s; TMPDIR names another folder", m->text,
                     strerror(errno));
}

static void remove_text(measuring *m)
{
    if (m->text && m->file >= 0) unlink(m->text);
    if (m->file >= 0) close(m->file);
    free(m->text);
}

/* Words of letters at random, with as many letters as tongues have. */
static weft_status write_text(measuring *m)
{
    enum { BYTES = 60000 };
    char *text;
    weft_random random;
    WEFT_TRY(WEFT_NEW(&text, BYTES));
    weft_random_start(&random, 1, 1);
    for (int i = 0; i < BYTES; i++) {
        int letter = (int)(weft_random_unit(&random) * 64);
        text[i] = letter < 10 ? ' ' : letter < 12 ? '\n' : (char)('!' + letter);
    }
    weft_status status = put_text(m, text, BYTES);
    free(text);
    return status;
}

static weft_status check_stop(const measuring *m)
{
    if (!m->stop || !m->stop->wanted) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped while this machine was measured; %s is not "
                     "written",
                     m->options->output);
}

static bool over(const measuring *m)
{
    return weft_seconds() - m->begun > m->options->seconds;
}

/* Measures the networks again and again while there is time, so that the table knows how far runs
 * differ, and has some in which nothing disturbed the machine; the first network at least. */
static weft_status measure_networks(measuring *m)
{
    char what[160];
    for (int i = 0;; i++) {
        const weft_measured_network *n = weft_measured_network_at(i);
        if (!n) n = weft_measured_network_at(i = 0);
        for (int s = 0; s < m->setting_count; s++) {
            WEFT_TRY(check_stop(m));
            (void)snprintf(what, sizeof(what), "%.60s, %d rank%s of %d thread%s", n->model,
                           m->settings[s].ranks, weft_plural(m->settings[s].ranks),
                           m->settings[s].threads, weft_plural(m->settings[s].threads));
            double done = (weft_seconds() - m->begun) / m->options->seconds;
            if (m->fn) m->fn(m->user, what, WEFT_MIN(done, 1.0));
            WEFT_TRY(weft_measure_network(m->context, n, m->settings[s], m->text, m->times));
        }
        if (over(m)) return WEFT_OK;
    }
}

static weft_status measure_transfers(measuring *m)
{
    int most = m->options->ranks > 0 ? (int)m->options->ranks : weft_cores();
    for (int ranks = 2; ranks <= most;
         ranks = ranks < most && 2 * ranks > most ? most : 2 * ranks) {
        bool first;
        if (m->fn) m->fn(m->user, "transfers between threads", 1);
        WEFT_TRY(weft_measure_transfers(m->context, m->options->engine, ranks, m->times, &first));
    }
    if (m->fn) m->fn(m->user, "codecs and copies", 1);
    return weft_measure_work(m->context, weft_cores(), m->times);
}

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
        weft_times_processor(m->times), weft_version(), base_name(m->options->output), 200 * spread,
        weft_cores(), (double)weft_memory_limit(""));
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

/* Adds the times of transfers that ranks of another engine have measured. */
static weft_status add_transfers(const measuring *m)
{
    const char *file = m->options->transfers;
    weft_bytes text = {0};
    weft_times *more = NULL;
    if (!file) return WEFT_OK;
    weft_status status = weft_file_read(file, &text);
    if (status == WEFT_OK)
        status = weft_times_read((const char *)text.data, text.size, file, &more);
    if (status == WEFT_OK) status = weft_times_add_all(m->times, more);
    weft_times_free(&more);
    free((void *)(uintptr_t)text.data);
    return status;
}

/* In a process of several, whose first rank writes the table. */
static weft_status measure_ranks(measuring *m, size_t *count, double *spread)
{
    char *text = NULL;
    bool first = false;
    WEFT_TRY(weft_times_new(&m->times));
    WEFT_TRY(weft_measure_transfers(m->context, m->options->engine, (int)m->options->ranks,
                                    m->times, &first));
    *count = weft_times_count(m->times);
    *spread = 0;
    if (*count == 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "engine %s: there is one rank, and transfers need two; a launcher starts "
                         "them, as mpirun -n 2 weft measure --engine %s -o FILE",
                         m->options->engine, m->options->engine);
    if (!first) return WEFT_OK;
    WEFT_TRY(weft_times_text(m->times, &text));
    weft_status status =
        weft_output_open(m->options->output, WEFT_OUTPUT_REPLACE, &m->outputs[TABLE]);
    if (status == WEFT_OK) status = weft_output_write(m->outputs[TABLE], text, strlen(text));
    free(text);
    return status;
}

/* The supervisor of the ranks takes one that ends without this for lost. */
static void tell_supervisor(void)
{
    weft_supervisor_channel line = {.deaf = true};
    weft_status_page_open(&line);
    weft_status_page_stage(&line, weft_job_rank(), WEFT_STAGE_FINISHED);
    weft_status_page_close(&line);
}

static weft_status measure(measuring *m, size_t *count, double *spread)
{
    char *text = NULL;
    WEFT_TRY(open_outputs(m));
    find_settings(m);
    WEFT_TRY(weft_times_new(&m->times));
    WEFT_TRY(write_text(m));
    WEFT_TRY(measure_transfers(m));
    WEFT_TRY(measure_networks(m));
    WEFT_TRY(add_transfers(m));
    /* The text has all measurements, the index their medians. */
    WEFT_TRY(weft_times_text(m->times, &text));
    weft_status status = weft_times_index(m->times);
    if (status == WEFT_OK) *spread = weft_times_spread(m->times);
    if (status == WEFT_OK) *count = weft_times_count(m->times);
    if (status == WEFT_OK) status = write_files(m, text, *spread);
    free(text);
    return status;
}

weft_status weft_measure(weft_context *context, const weft_measure_options *options,
                         const weft_stop *stop, weft_measure_fn fn, void *user, size_t *times,
                         double *spread)
{
    WEFT_NEED(context, options, times, spread);
    weft_measure_options own;
    WEFT_TRY(weft_options_take(rows, options, &own));
    WEFT_CHECK_ROOM("weft_measure_options", &own);
    measuring m = {.context = context,
                   .options = &own,
                   .stop = stop,
                   .fn = fn,
                   .user = user,
                   .file = -1,
                   .begun = weft_seconds()};
    const weft_train_engine *engine = weft_train_engine_of(own.engine);
    weft_status status = WEFT_OK;
    if (engine->members)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "engine %s: the ranks of its learners are threads; leave --engine out",
                           own.engine);
    else
        status = engine->launched ? measure_ranks(&m, times, spread) : measure(&m, times, spread);
    status = close_outputs(&m, status);
    if (status == WEFT_OK && engine->launched) tell_supervisor();
    remove_text(&m);
    weft_times_free(&m.times);
    return status;
}
