/* The command: one file per subcommand, all of them in one table. Uses public headers only. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>

#include "weft/cluster.h"
#include "weft/options.h"
#include "weft/server.h"
#include "weft/simulate.h"

typedef struct command {
    const char *name;
    const char *usage;   /* what follows the name */
    const char *summary; /* one line */
    const char *text;    /* paragraphs of the help */
    const char *examples;
    const weft_option *(*table)(const weft_context *context);
    /* Without the program's and the command's name. The context is the process's. */
    int (*run)(weft_context *context, int argc, char **argv);
} command;

extern const command command_train, command_simulate, command_compare, command_plan, command_eval,
    command_predict, command_serve, command_load, command_inspect, command_export,
    command_coordinator, command_server, command_join, command_leave, command_status,
    command_keygen, command_selftest, command_help;
extern const command *const commands[];

enum { EXIT_INTERRUPTED = 130 };

/* From now on warnings and notes are printed, and with `quiet` none, as "weft: <text>" on stderr.
 * Of the ranks of a job only the first one warns. */
void print_log(weft_context *context, bool quiet);

/* Prints "weft: <message>" to stderr and returns the exit code of a status. */
int report_failure(weft_status status);
/* What a process that trains, or serves those who do, says of its failure; see
 * weft_job_status_line. */
void print_status_line(const char *what, const char *message);
/* A line of what a supervisor has to say, to stderr. */
void print_line(void *user, const char *line);
/* As report_failure for a mistake on the command line, with a pointer to the help. */
int usage_failure(const char *command_name);

/* serve.c: an address of the server, for people. */
void print_url(const char *before, const weft_server_options *options, int port);
/* Serves with several processes, until they are told to end; the exit code. */
int serve_processes(weft_context *context, weft_server_options *options, const char *const *words,
                    int count);

/* Prints what to expect of policies of batching; the exit code. */
int forecast_policies(weft_context *context, const weft_server_options *options);

/* main.c: seconds of a clock that only goes forward. */
double clock_seconds(void);

/* Faults that the system would end the process for become sentences and failed writes. */
void catch_faults(void);

#define CLEAR_LINE "\r\033[K" /* of a terminal */

/* Progress of a training run: a bar on a terminal, lines elsewhere. What the options leave open is
 * decided by the process whose standard output is the user's; it tells the ranks that it starts, to
 * whom a launcher may show a terminal that there is not. */
typedef struct progress progress;
const char *progress_kind(const weft_show_choice *show); /* "bar" or "lines" */
int progress_columns(void);                              /* of the terminal */
/* simulated: the seconds of events are virtual, and the rate that is shown is of real ones. */
progress *progress_new(const weft_train_options *options, bool simulated);
void progress_event(void *user, const weft_event *event);
void progress_end(progress *p);

/* From now on signals that ask for the end stop the trainer that runs, and what waits for this. */
extern weft_stop wanted_stop;
void catch_signals(void);
/* The exit code of what a signal has ended, as shells count. */
int interrupted_code(void);
/* Shows a trainer's run until it ends or a signal comes. */
weft_status run_trainer(weft_trainer *trainer, const weft_train_options *options);
/* weft_trainer_run; SIGINT, SIGTERM and SIGHUP stop it after the step (INTERRUPTED). */
weft_status run_until_stopped(weft_trainer *trainer, weft_event_fn fn, void *user);

/* Puts a pipe in the place of standard output, from which all is passed on. NULL: there is none,
 * and nothing is changed. Ending tells if something did not arrive, and returns the exit code. */
typedef struct relay relay;
relay *relay_begin(void);
int relay_end(relay *r, int code);

/* Options of weft train: defaults, then the run file, then the command line. */
weft_status read_train_options(const weft_context *context, weft_train_options *o, int argc,
                               char **argv);
/* The same for a table that is longer, whose struct `init` fills; scratch is another one. Both are
 * zeroed. */
weft_status read_run_options(const weft_context *context, const weft_option *table,
                             weft_status (*init)(const weft_context *context, void *options),
                             void *scratch, void *options, int argc, char **argv);
/* Options of weft eval and weft predict; the checkpoint may also be the only other word. */
weft_status read_eval_options(const weft_option *table, int argc, char **argv,
                              weft_eval_options *out);

/* simulate.c: figures of a summary; 0 where there is none, staleness below 0. */
const weft_series *find_series(const weft_event *event, const char *name);
double series_number(const weft_event *event, const char *name);
double mean_staleness(const weft_event *event);
const char *bytes_text(double bytes, char *out, size_t size);

void print_confusion(const weft_report *report);
/* A figure as people read it. */
const char *figure_text(const weft_figure *figure, char *out, size_t size);

#endif
