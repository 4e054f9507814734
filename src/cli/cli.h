/* The command line interface: one file for each subcommand, all in one table. It uses public
 * headers only. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>

#include "weft/cluster.h"
#include "weft/options.h"
#include "weft/server.h"
#include "weft/simulate.h"

typedef struct command {
    const char *name;
    const char *usage;   /* arguments after the name */
    const char *summary; /* one line */
    const char *text;    /* paragraphs of the help */
    const char *examples;
    const weft_option *(*table)(const weft_context *context);
    /* Arguments are those after the command's name. The context belongs to the process. */
    int (*run)(weft_context *context, int argc, char **argv);
} command;

extern const command command_train, command_simulate, command_compare, command_plan, command_eval,
    command_predict, command_serve, command_load, command_inspect, command_export,
    command_coordinator, command_server, command_join, command_leave, command_status,
    command_keygen, command_selftest, command_help;
extern const command *const commands[];

enum { EXIT_INTERRUPTED = 130 };

/* Prints warnings and notes as "weft: <text>" to stderr from now on; with `quiet` none. Only rank 0
 * of a job prints them. */
void print_log(weft_context *context, bool quiet);
/* Flushes standard output. The first failure is reported when the command ends. */
void flush_stdout(void);
/* errno of the first failure; 0: there was none. */
int stdout_error(void);

/* Prints "weft: <message>" to stderr, and returns the exit code of a status. */
int report_failure(weft_status status);
/* Prints the status line of a supervised process; see weft_job_status_line. */
void print_status_line(const char *what, const char *message);
/* Prints a line of the supervisor to stderr. */
void print_line(void *user, const char *line);
/* As report_failure for an error on the command line, with a reference to the help. */
int usage_failure(const char *command_name);

/* serve.c: prints the URL of the server. */
void print_url(const char *before, const weft_server_options *options, int port);
/* Serves with several processes until they are stopped; returns the exit code. */
int serve_processes(weft_context *context, weft_server_options *options, const char *const *words,
                    int count);

/* Prints a forecast for the batching policies; returns the exit code. */
int forecast_policies(weft_context *context, const weft_server_options *options);

/* main.c: seconds of a monotonic clock. */
double clock_seconds(void);

/* Handles SIGBUS with a message, and turns SIGXFSZ into a failed write. */
void catch_faults(void);

#define CLEAR_LINE "\r\033[K" /* of a terminal */

/* Progress of a training run: a bar on a terminal, lines elsewhere. Unless the options decide, the
 * process with the user's standard output chooses and tells the ranks that it starts, since a
 * launcher may show them a terminal that does not exist. */
typedef struct progress progress;
const char *progress_kind(const weft_show_choice *show); /* "bar" or "lines" */
int progress_columns(void);                              /* of the terminal */
/* simulated: event times are virtual, while the displayed rate is of real time. */
progress *progress_new(const weft_train_options *options, bool simulated);
void progress_event(void *user, const weft_event *event);
void progress_end(progress *p);

/* Lets SIGINT, SIGTERM and SIGHUP stop the running trainer, and code that watches wanted_stop. */
extern weft_stop wanted_stop;
void catch_signals(void);
/* The exit code after a signal, as in shells. */
int interrupted_code(void);
/* Runs a trainer with a progress display until it ends or a signal arrives. */
weft_status run_trainer(weft_trainer *trainer, const weft_train_options *options);
/* weft_trainer_run; SIGINT, SIGTERM and SIGHUP stop it after the step (INTERRUPTED). */
weft_status run_until_stopped(weft_trainer *trainer, weft_event_fn fn, void *user);

/* Replaces standard output by a pipe whose contents are passed on. NULL: that failed, and nothing
 * has changed. relay_end reports lost output, and returns the exit code. */
typedef struct relay relay;
relay *relay_begin(void);
int relay_end(relay *r, int code);

/* Reads the options of weft train: defaults, then the run file, then the command line. */
weft_status read_train_options(const weft_context *context, weft_train_options *o, int argc,
                               char **argv);
/* As above, for a longer table, whose struct `init` fills; scratch is a second struct. Both are
 * zeroed. */
weft_status read_run_options(const weft_context *context, const weft_option *table,
                             weft_status (*init)(const weft_context *context, void *options),
                             void *scratch, void *options, int argc, char **argv);
/* Reads the options of weft eval and weft predict; the checkpoint may also be the single
 * argument. */
weft_status read_eval_options(const weft_option *table, int argc, char **argv,
                              weft_eval_options *out);

/* simulate.c: metrics of a summary; 0 if it has none, staleness below 0. */
const weft_series *find_series(const weft_event *event, const char *name);
double series_number(const weft_event *event, const char *name);
double mean_staleness(const weft_event *event);
const char *bytes_text(double bytes, char *out, size_t size);

void print_confusion(const weft_report *report);
/* Formats a metric. */
const char *figure_text(const weft_figure *figure, char *out, size_t size);

#endif
