/* The command line interface: one file for each subcommand, and one table of all of them. The
 * sources include public headers only. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "weft/cluster.h"
#include "weft/options.h"
#include "weft/serve.h"
#include "weft/simulate.h"

typedef struct command {
    const char *name;
    const char *usage;   /* arguments after the name */
    const char *summary; /* one line */
    const char *text;    /* paragraphs of the help */
    const char *examples;
    const weft_option *(*table)(const weft_context *context);
    /* Further options, beside those of the table, for take_own_options; NULL: none. */
    const weft_option *own;
    /* Runs the command and returns the exit code. argv begins after the command's name. */
    int (*run)(weft_context *context, int argc, char **argv);
    bool computes; /* runs kernels on several threads */
    /* Processes that a launcher has started do not share the work of this command; RANKS: unless
     * they have ranks of MPI. */
    enum { TASKS_ANY, TASKS_ALONE, TASKS_RANKS } tasks;
} command;

extern const command command_train, command_simulate, command_compare, command_plan,
    command_measure, command_eval, command_predict, command_generate, command_serve, command_load,
    command_inspect, command_export, command_coordinator, command_server, command_join,
    command_leave, command_status, command_fetch, command_keygen, command_selftest, command_help,
    command_find_lr;
extern const command *const commands[];

enum { EXIT_INTERRUPTED = 130 };

/* From now on the log's warnings and notes are printed to stderr as "weft: <text>", unless `quiet`.
 * In a job only rank 0 prints them. */
void print_log(weft_context *context, bool quiet);
/* Flushes standard output. main reports the first failed write when the command ends. */
void flush_stdout(void);
/* Whether a file's name may stand for what is written to it: prints an error if its suffix is that
 * of another format. formats: suffixes that are refused, separated by spaces; right: the suffix
 * that is right, with its dot. */
bool suffix_fits(const char *command_name, const char *option, const char *path,
                 const char *formats, const char *written, const char *right);
/* Suffixes of pictures that are no SVG. */
#define OTHER_PICTURES "png jpg jpeg gif webp bmp tif tiff pdf eps ps html"
/* arrays.c: for commands that train: arrays that are freed do not stay in the process (map_arrays),
 * or, in processes that exchange messages, arrays of up to 32 MB stay for the next ones, so that a
 * message does not fault in its pages again (keep_arrays). All threads then have one arena, so that
 * a message has the room of any other one, and weft_trim_memory gives back all. Values of the
 * user's stay (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_, MALLOC_ARENA_MAX). */
void map_arrays(void);
void keep_arrays(void);
/* Whether this process is a rank of a job of several, whose learners send each other messages, and
 * not only collectives. exchange: as given; NULL: none. */
bool sends_messages(const weft_context *context, const char *exchange);
/* errno of the first write to standard output that failed; 0: none has. */
int stdout_error(void);
/* topics.c: the pages of the manual about the entries of each kind. topic_of: the name of the page
 * of a kind, such as "operators"; NULL: none. topic_find: the kind of such a name, or NONE.
 * print_topic: prints a page, with `man` as source for man(1); returns the exit code. */
const char *topic_of(weft_kind kind);
weft_kind topic_find(const char *name);
/* Says that there is no such command, with the nearest one or the topic that has the name; returns
 * the exit code. */
int no_command(const weft_context *context, const char *name);
int print_topic(const weft_context *context, weft_kind kind, bool man);
/* help.c: prints text with escapes where roff would read a command. */
void print_roff(const char *text);
/* Removes the options --NAME and --NAME=VALUE of a command's own table from the arguments, and sets
 * them in `out`. One without a value gets its `initial`, or if it is a flag, true, or else the next
 * argument. */
weft_status take_own_options(const weft_option *own, void *out, int *argc, char **argv);

/* completion.c: prints a completion script for bash; returns the exit code. */
int print_completion(const weft_context *context);
/* Raises this process's limit on open files to `wanted`, or to the hard limit if that is lower.
 * Returns the limit that holds. */
int64_t raise_file_limit(int64_t wanted);

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

/* Prints the forecast latency of each batching policy (weft serve --simulate), with the batch times
 * of a model's queue, or with queue NULL those of --service; returns the exit code. */
int forecast_policies(weft_context *context, const weft_server_options *options,
                      weft_batch_queue *queue);

/* main.c: seconds of a monotonic clock. */
double clock_seconds(void);
/* Sorts numbers, the smallest first. */
void sort_numbers(double *numbers, size_t count);

/* Installs handlers: SIGBUS ends the process with a message, and SIGXFSZ makes the write fail. An
 * ignored SIGHUP stays ignored (nohup), whatever shared libraries do while they are loaded. */
void catch_faults(void);
/* A handler: ends the process by the signal, without its temporary files. Signals that ask a
 * process to end have it before catch_signals, and after the first one that comes then. */
void end_at_once(int number);
/* Begins the program again, with idle threads that soon sleep, unless the environment says how long
 * they spin. Called first. */
void limit_spinning(char **argv);

#define CLEAR_LINE "\r\033[K" /* clears the current line of a terminal */

/* plan_memory.c: by how much a run does not fit into the machines of a cluster, of which each has a
 * rank where no number is given, and options that would help; allocated. NULL: it fits, or that is
 * not known. */
char *memory_lack(weft_context *context, const weft_train_options *options, const char *cluster);
/* plan_estimate.c: tells for whose processor the estimates for a cluster (NULL: none) are, if it is
 * not this one. */
void note_processor(const char *cluster, bool quiet);

/* Progress of a training run: a bar on a terminal, lines elsewhere. Unless --progress decides, the
 * process that has the user's standard output chooses, and passes its choice to the ranks that it
 * starts, since a launcher may give them a pseudo-terminal where the user has no terminal. */
typedef struct progress progress;
const char *progress_kind(const weft_show_choice *show); /* "bar" or "lines" */
int progress_columns(void);                              /* of the terminal */
/* folded_table.c: a table, whose lines are written to `to` from its begin to its end, which prints
 * it; the first line has the headings, two blanks or more apart. Where the terminal is narrower,
 * each row takes several lines. print_with_tables prints a text, the paragraphs of which that begin
 * with this heading are tables. */
typedef struct folded_table {
    FILE *to; /* stdout where there is no memory for the text */
    char *text;
    size_t size;
} folded_table;
void folded_table_begin(folded_table *t);
void folded_table_end(folded_table *t);
void print_with_tables(const char *text, const char *heading);
/* simulated: the times of events are virtual, and the rate is computed by the real clock. */
progress *progress_new(const weft_train_options *options, bool simulated);
void progress_event(void *user, const weft_event *event);
void progress_end(progress *p);
/* Formats a loss or a score with four decimals; a large one, as of a run that diverges, with four
 * digits and an exponent. */
const char *score_text(double score, char *out, size_t size);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGXCPU stop the running trainer and set
 * wanted_stop.wanted, which other code polls. */
extern weft_stop wanted_stop;
void catch_signals(void);
/* The exit code of a command that a signal has stopped: 128 and the signal's number. */
int interrupted_code(void);
/* Runs a trainer with a progress display until it ends or a signal arrives. */
weft_status run_trainer(weft_trainer *trainer, const weft_train_options *options);
/* weft_trainer_run; SIGINT, SIGTERM, SIGHUP and SIGXCPU stop it after the step (INTERRUPTED). */
weft_status run_until_stopped(weft_trainer *trainer, weft_event_fn fn, void *user);

/* relay_begin replaces standard output by a pipe, whose contents a thread writes to the former
 * standard output; NULL: this failed, and nothing has changed. relay_end restores standard output,
 * reports a failed write, and returns the exit code. */
typedef struct relay relay;
relay *relay_begin(void);
int relay_end(relay *r, int code);

/* plugins.c: load the plug-ins whose paths the options give, which processes that this one starts
 * then load, too, and those of WEFT_PLUGINS. take_plugin_options moves the paths of --plugin from
 * the command line to WEFT_PLUGINS. All but the first return the exit code; 0: success. */
weft_status load_option_plugins(weft_context *context, const weft_option *table,
                                const void *options);
int take_plugin_options(int *argc, char **argv);
int load_plugins(weft_context *context, const weft_option *table, const void *options);
int load_plugins_of_environment(weft_context *context);

/* Reads the options of weft train: defaults, then the run file, then the command line. */
weft_status read_train_options(const weft_context *context, weft_train_options *o, int argc,
                               char **argv);
/* run_options.c: if the words say --resume, replaces the options, which are those of the words
 * alone, by those of the checkpoint, over which the words are read. */
weft_status take_resumed_options(weft_context *context, weft_train_options *o, int argc,
                                 char **argv);
/* Whether --resume finds no checkpoint, and prints an error, as a new run would not be meant: one
 * begins, as in a script that is started again and again, where the words name a model or data. */
bool resumes_nothing(weft_context *context, const weft_train_options *options);
/* given.c: prints an error and returns false if the words give one of these options of weft train,
 * the last NULL, another value than its default. A run file may have them, since it is of a run. */
bool refuse_given(weft_context *context, const char *command_name, const char *const *names,
                  const char *why, int argc, char **argv);
/* As read_train_options, for a table that extends that of weft train and whose struct `init` fills.
 * options and scratch are two such structs, zeroed; the command line is parsed into scratch to find
 * the run file. */
weft_status read_run_options(const weft_context *context, const weft_option *table,
                             weft_status (*init)(const weft_context *context, void *options),
                             void *scratch, void *options, int argc, char **argv);
/* Reads the options of a command with a checkpoint, which may also be the single argument.
 * checkpoint: the field for it in the options `out`. */
weft_status read_checkpoint_options(const weft_option *table, int argc, char **argv, void *out,
                                    char *const *checkpoint);

/* strategies.c: splits a list of strategies at its semicolons into words[], which the caller frees;
 * returns their number, or -1 if one is empty or there are more than `most`. set_strategy sets the
 * options of one, NAME=VALUE or NAME of a flag. strategy_label: how it is displayed, without a
 * leading "exchange=". */
int split_strategies(const char *list, char **words, int most);
/* Prints that the list is none of 1 to `most` strategies; returns the exit code. */
int refuse_strategies(const char *list, int most, const char *command_name);
weft_status set_strategy(const weft_option *table, void *options, const char *words);
const char *strategy_label(const char *words);

/* simulate.c: a series of a summary event by its name (NULL: none), its first number (0: none), and
 * the mean staleness of its updates (below 0: unknown). */
const weft_series *find_series(const weft_event *event, const char *name);
double series_number(const weft_event *event, const char *name);
double mean_staleness(const weft_event *event);
const char *bytes_text(double bytes, char *out, size_t size);

/* confusion.c: prints the confusion matrix or, if it is wider than the terminal, the pairs of
 * classes that are most confused. */
void print_confusion(const weft_report *report);
/* Prints the members class_names and confusion of a JSON object, with a comma before each. */
void print_confusion_json(const weft_report *report);
/* A table of the metrics by class, and the key by_class of an object. */
void print_by_class(const weft_report *report);
void print_by_class_json(const weft_report *report);
/* The key labels: the metrics of each label. */
void print_labels_json(const weft_report *report);
/* Prints a JSON string in its quotes. */
void print_json_string(const char *text);
/* Formats the value of a metric, or the reason why it has none. */
const char *figure_text(const weft_figure *figure, char *out, size_t size);

#endif
