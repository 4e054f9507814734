/*
 * The hunt for bugs by random cases: it draws a network, data, options and a way to run, trains,
 * and compares the result with a run of one rank on the reference device in double precision.
 *
 * A case is plain data. The model file, the data files and the words of the command line are
 * written from it, so the command that is printed for a failure is the one that was run. Each case
 * runs in a child process with limits; the parent never calls the library.
 */
#ifndef WEFT_TESTS_HUNT_H
#define WEFT_TESTS_HUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/weft.h"

#if defined(__SANITIZE_THREAD__)
enum { THREADS_WATCHED = 1 };
#else
enum { THREADS_WATCHED = 0 };
#endif
#ifdef WEFT_SANITIZED
enum { SANITIZED = 1, SECONDS_OF_CPU = 1200 };
#else
enum { SANITIZED = 0, SECONDS_OF_CPU = 400 };
#endif
enum { SECONDS_IDLE = 120, SECONDS_OF_WAITING = 3 };
enum { MOST_LAYERS = 16, MOST_JOINED = 3, MOST_STEPS = 12, AXES = 4, TEXT = 256 };

/* --- a case --- */

typedef enum kind {
    CONV,
    CONV_TRANSPOSE,
    DENSE,
    MAXPOOL,
    AVGPOOL,
    GLOBAL_AVGPOOL,
    ADAPTIVE_AVGPOOL,
    UPSAMPLE,
    BATCH_NORM,
    LAYER_NORM,
    GROUP_NORM,
    INSTANCE_NORM,
    DROPOUT,
    CHANNELS_LAST,
    FLATTEN,
    RELU,
    GELU,
    SILU,
    SOFTMAX,
    LEAKY_RELU,
    ELU,
    RELU6,
    HARDSIGMOID,
    HARDSWISH,
    SIGMOID,
    TANH,
    CAST,
    CONCAT,
    ADD,
    MUL,
    LINEAR,
    RMS_NORM,
    POSITIONS,
    ATTENTION,
    LSTM,
    GRU,
    EMBEDDING,
    SEQUENCE_MEAN,
    KINDS
} kind;

enum { MOST_DIMS = 3 }; /* spatial dimensions */

/* A layer names the layers that it reads by their ids, so that other layers can be dropped; INPUT
 * is the model's input x. */
enum { INPUT = -1 };
typedef struct layer {
    kind kind;
    int id;
    int inputs, from[MOST_JOINED];
    int filters, groups, axis; /* filters: also the units of dense, linear and recurrences */
    int share;                 /* id of the layer whose weights this one has; 0: its own */
    int heads, key_heads;      /* of attention */
    int stack;                 /* recurrences on top of each other */
    bool causal, rotary;       /* of attention */
    bool both, last;           /* of a recurrence: both directions; the last state alone */
    bool lengths;              /* the layer reads the input n: how many positions count */
    int kernel[MOST_DIMS], stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS];
    bool bias, he, outputs; /* outputs: the layer has one unit for each class or target */
    double rate;
} layer;

/* [channels, side, ...] with `dims` sides, or [channels]. */
typedef struct sample_shape {
    int channels, dims, side[MOST_DIMS];
} sample_shape;
int sample_size(const sample_shape *s);

/* TOKENS: samples are windows of `channels` tokens, each below `classes`; a label for each. */
typedef enum format { IDX, NPY, CSV, TOKENS, FORMATS } format;
typedef struct samples {
    format format;
    bool bytes; /* features are whole numbers of one byte, otherwise real numbers */
    bool last;  /* NPY: channels are the last dimension */
    sample_shape shape;
    int train, test, classes;
    unsigned absent; /* bit c: no sample has label c */
    int targets;     /* > 0: a sample has so many numbers to predict, and no label */
    bool several;    /* CSV: these numbers are 0 or 1, the labels of a sample (multi-label) */
    /* CSV: > 0: the last so many features are the categories of one column, or, with `embedded`, a
     * vector for each. */
    int categories;
    bool embedded;
    double scale; /* factor of the targets */
    int weights;  /* 0: no sample weights; 1: all are above 0; 2: some are 0 */
    uint64_t seed;
} samples;

/* A parameter of layer `id` whose dimension 0, 1, out or in (`dim` is the index) is pinned to an
 * axis of the mesh. */
enum { MOST_PINS = 2, PIN_DIMS = 4 };
typedef struct pin {
    int id, dim, axis; /* id 0: no pin */
} pin;

/* How a graph is distributed. mesh: sizes of the axes data, domain, tensor, pipeline. places > 0:
 * layers are placed by name on so many ranks; place[id] is the rank plus 1; 0: the layer runs where
 * its input is. */
typedef struct way {
    int mesh[AXES];
    int zero;
    bool recompute, gpipe;
    int places, place[MOST_LAYERS + 1];
    pin pins[MOST_PINS];
    bool named;    /* places are devices by name, see named_devices, in place of ranks */
    bool home;     /* parameters are kept in host memory */
    int shares;    /* 0: ranks of the data axis have equal shares of the batch; else a seed */
    int columns;   /* axis plus 1 that splits the input's second spatial dimension; 0: none */
    int elsewhere; /* index in far_devices; 0: the device of the case */
    int servers;   /* 0: the option is not given */
    int replicas;
} way;

/* Lists of devices, most of them in other memory. like: bits of the devices (1 << CPU, 1 <<
 * REFERENCE) that give the same bits. alike: its devices compute alike, as virtual workers need. */
enum { FAR_DEVICES = 14 };
typedef struct far_device {
    const char *list;
    unsigned like;
    bool alike;
} far_device;
extern const far_device far_devices[FAR_DEVICES];
/* Places by name: rank i of a case runs on one of these. */
extern const char *const named_devices[4];

typedef enum meeting { NO_MEETING, AVERAGE, ONESHOT, SERVER, EASGD, GOSSIP, HOGWILD } meeting;
enum { BSP, ASYNC, SOFTSYNC, SSP };
enum { UPDATES, MEETINGS };
typedef struct exchange {
    meeting kind;
    int learners, every, state; /* state: index of keep, average, reset */
    bool outer;
    double lr, momentum;
    int policy, count, bound, scale; /* of servers; scale: index in none, inverse, exp */
    int push, fetch, back;           /* of servers; 0: not given; back: index in hunt_codecs */
    double alpha;                    /* of easgd; 0: not given */
    int topology, mode;              /* of gossip; topology: index in all, ring, torus, random */
    int sample;                      /* of hogwild */
    int codec;                       /* index in hunt_codecs; 0: not given */
} exchange;
enum { CODECS = 10 };
extern const char *const hunt_codecs[CODECS];

/* Options of weft train that are a number, a choice or a flag; see option_rows. */
typedef enum option_id {
    OPTIMIZER,
    LR,
    LR_SCHEDULE,
    WARMUP,
    DECAY_EVERY,
    GAMMA,
    LR_FLOOR,
    MOMENTUM,
    NESTEROV,
    WEIGHT_DECAY,
    BETA1,
    BETA2,
    EPSILON,
    CLIP_NORM,
    LABEL_SMOOTHING,
    LOSS,
    EVALUATE_EVERY,
    BATCH,
    MICROBATCHES,
    VIRTUAL_WORKERS,
    STEPS,
    SEED,
    THREADS,
    DEVICE,
    DTYPE,
    SUM_DTYPE,
    WEIGHTS,
    NORMALIZE,
    CHECK_COLLECTIVES,
    NO_BIND,
    CHECKPOINT_EVERY,
    OPTIONS
} option_id;
enum { SGD, ADAM, ADAMW };
enum { CPU, REFERENCE };
enum { F32, F64, BF16 };
enum { WIDE, NARROW }; /* of sums and weights */
enum { AUTO, NONE };
enum { FOCAL = 1, L1 = 3, HUBER = 4, QUANTILE = 5 }; /* of the losses */

/* Options that judge a run, and those that change its samples. held: samples of the training part
 * that
 * --validation holds out, beside those of `train`; metric, best: indices in hunt_metrics, 0: not
 * given; classes: 1: --class-weights balanced, 2: a number for each; augment: bits of the list in
 * judging.c. */
typedef struct judging {
    int held, patience, metric, best, classes;
    unsigned augment;
} judging;
enum { METRICS = 9, AUGMENTATIONS = 7 };
extern const char *const hunt_metrics[METRICS];

typedef struct hunt_case {
    int layer_count;
    layer layers[MOST_LAYERS];
    samples samples;
    double options[OPTIONS]; /* numbers; for a choice, its index */
    exchange exchange;
    judging judging;
    way way;
    int stop; /* > 0: the run is stopped after this step and resumed in the way `later` */
    way later;
    /* twice: a second run of the same way must have the same bits; plan: weft plan describes the
     * way; evaluate: the checkpoint is evaluated; processes: the case also runs as MPI
     * processes. */
    bool twice, plan, evaluate, processes;
    bool loss; /* the model file names the loss */
    /* tokens > 0: the checkpoint generates so many on every mesh, with this temperature. */
    int tokens;
    double temperature;
} hunt_case;

/* --- drawing: draw.c, network.c, shapes.c --- */

typedef struct dice {
    uint64_t state;
} dice;
uint64_t roll(dice *d);
int between(dice *d, int low, int high); /* low to high, both included */
bool chance(dice *d, double p);

/* judging.c: draws what judges a run, and writes its words. */
void draw_judging(dice *d, hunt_case *c);
typedef struct words words;
void judging_words(const hunt_case *c, words *out);

/* The value of each option that a case does not choose; shrinking moves options to these values. */
extern const double neutral_options[OPTIONS];
/* The share of the ways that run elsewhere. */
extern double far_share;
void draw_case(dice *d, hunt_case *c);
void draw_network(dice *d, hunt_case *c);
double one_of(dice *d, const double *list, int n);
#define ONE_OF(d, ...)                                                                             \
    one_of(d, (const double[]){__VA_ARGS__},                                                       \
           (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
void draw_exchange(dice *d, hunt_case *c);
/* is_repeatable: two runs of the same way have the same bits, since the order of updates is fixed.
 * is_comparable: runs of different ways have the same values too, since updates are also sent in
 * full. goes_on_alike: a resumed run has the bits of a run without a stop. */
bool is_repeatable(const hunt_case *c);
bool is_comparable(const hunt_case *c);
bool goes_on_alike(const hunt_case *c);
bool has_servers(const exchange *e);
/* Whether servers wait for all learners, or there is only one. */
bool is_synchronous(const exchange *e);

int way_ranks(const way *w);
/* Whether a way gives the bits of the device of the case. */
bool has_own_bits(const hunt_case *c, const way *w);
/* The device on which one rank uses the results of a way: the last one of its list. */
const char *lone_device(const hunt_case *c, const way *w);
int learners_of(const hunt_case *c);
/* The smallest number of samples, above 0, in a micro-batch or virtual worker of the case. */
int least_samples(const hunt_case *c);

/* Gives the shape of the output of layer i; false: the layer cannot read its inputs. */
bool layer_shape(const hunt_case *c, int i, sample_shape *out);
/* Gives the shape of the output of the layer with this id, or of the input; false: it has none. */
bool id_shape(const hunt_case *c, int id, sample_shape *out);
bool same_shape(const sample_shape *a, const sample_shape *b);
int outputs_of(const samples *s);
const char *kind_name(kind k);
/* A layer type of the library that draw_network never draws; NULL: there is none. */
const char *undrawn_layer(void);
/* The option table of weft train. */
const weft_option *train_table(void);
weft_status train_options_init(weft_train_options *options);
void layer_name(const layer *l, char *out, size_t room);
/* The layer before layer i whose weights it shares; -1: it has its own, or none. */
int shared_layer(const hunt_case *c, int i);
/* Whether a layer reads the numbers of positions that count, which the data then have. */
bool reads_lengths(const hunt_case *c);
/* Whether layers of this type have the parameter `weight`, or if not `gamma`. */
bool has_weight(kind k);
bool has_gamma(kind k);
/* Whether layers of this type have the key `units`. */
bool has_units(kind k);
/* Whether rounding decides which slope an activation takes: relu behind a norm of one number, or
 * behind the mean of values that were normed. No two orders of addition agree there, so smooth_over
 * replaces relu and max-pools by smooth operators. */
bool rounding_decides(const hunt_case *c);
void smooth_over(hunt_case *c);

/* --- writing a case: text.c, files.c --- */

struct words {
    int count;
    char *word[96];
    char room[8192];
    size_t used;
};
void add_word(words *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
void exchange_words(const exchange *e, char *out, size_t room);
/* A mesh as --mesh names it; "": one rank. */
void mesh_text(const int *mesh, char *out, size_t room);
/* The words behind `weft train`. folder: for checkpoints; NULL: none is written. */
void case_words(const hunt_case *c, const way *w, const char *folder, words *out);
void print_words(FILE *to, const char *before, const words *w);
void print_model(FILE *to, const hunt_case *c);
/* The number of tokens that so many windows take up, each with the label of its last position. */
int64_t token_count(const samples *s, int windows);
/* Writes net.yaml and the data files into the current folder. */
void write_case(const hunt_case *c);
/* The categories of the column of a table, of whose rows `held` are held out; 0: there is none. */
int category_count(const samples *s, int held);

/* --- a run: run.c, tensors.c --- */

typedef struct tensor {
    char name[TEXT], dtype[8];
    int64_t count;
    unsigned char *data;
} tensor;
typedef struct tensors {
    int count, capacity;
    tensor *list;
} tensors;

typedef struct result {
    weft_status status;
    char message[2048];
    int steps;
    double losses[MOST_STEPS];
    double test_loss, figure; /* accuracy, or R2 of a regression */
    tensors tensors, best;    /* best: those of the checkpoint that --keep-best keeps */
    char command[4096];
} result;
/* Trains in this process by the words of the command. stop > 0: stops after that step. resume:
 * continues from the newest checkpoint in the folder. */
void run_case(const hunt_case *c, const way *w, const char *folder, int stop, bool resume,
              result *out);
void result_free(result *r);
/* weft plan: that way as text, without running it. */
weft_status plan_case(const hunt_case *c, const way *w, char *message, size_t room);

/* Evaluates the newest checkpoint on the test part: gives test_loss and figure. */
void evaluate_case(const hunt_case *c, const char *folder, result *out);
/* command.c: runs a case by the command, as MPI processes. Its metrics give losses with nine
 * digits. */
extern const char *const hunt_command; /* "": this build has no MPI */
void run_command(const hunt_case *c, const way *w, const char *folder, result *out);

/* Reads every safetensors file of a checkpoint; false: there is none, or one is damaged. */
bool tensors_read(const char *folder, tensors *out);
void tensors_free(tensors *t);
const tensor *tensors_find(const tensors *t, const char *name);
double tensor_at(const tensor *t, int64_t i);

/* --- judging: judge.c, refusals.c --- */

typedef enum fault { CLEAN, REFUSED, VALUES, BITS, SENTENCE, CRASH, HANG, SANITIZER, FAULTS } fault;
extern const char *const fault_names[FAULTS];

typedef struct verdict {
    fault fault;
    char stage[TEXT]; /* the run or comparison that was under way */
    char text[2048];
    char command[4096];
    int runs;
} verdict;
/* Runs a case in the current folder and finds its first fault. out->stage is kept up to date, so
 * that a parent process knows where a child died. */
void judge(const hunt_case *c, verdict *out);
/* The pattern of the list of allowed refusals that fits a message; NULL: none fits. */
const char *listed_refusal(const char *message);
bool is_divergence(const char *message);

/* --- main.c, shrink.c --- */

/* Judges a case in a child process with limits of memory and time; its files are in the folder. */
verdict try_case(const hunt_case *c, const char *folder);
bool same_fault(const verdict *a, const verdict *b);
/* Makes a failing case as small as possible while its fault stays, for at most so many seconds. */
void shrink(hunt_case *c, verdict *v, const char *folder, double seconds);

#endif
