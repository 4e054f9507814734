/*
 * A hunter: draws a network, data, options and a way to run, trains, and holds what comes out
 * against one rank on the float64 reference.
 *
 * A case is plain data. The model file, the files of data and the words of the command line are
 * written from it, so what is printed for a failure is what was run. Each case runs in a child
 * process with limits; the parent never calls the library.
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
    DENSE,
    MAXPOOL,
    AVGPOOL,
    GLOBAL_AVGPOOL,
    BATCH_NORM,
    LAYER_NORM,
    DROPOUT,
    FLATTEN,
    RELU,
    GELU,
    SIGMOID,
    TANH,
    CONCAT,
    ADD,
    KINDS
} kind;

enum { MOST_DIMS = 3 }; /* of space */

/* Which layer a layer reads is said by ids, so that others can be dropped; INPUT is x. */
enum { INPUT = -1 };
typedef struct layer {
    kind kind;
    int id;
    int inputs, from[MOST_JOINED];
    int filters, groups, axis; /* filters also: units */
    int kernel[MOST_DIMS], stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS];
    bool bias, he, outputs; /* outputs: as many units as the data have classes, or targets */
    double rate;
} layer;

/* [channels, side, ...] with so many dimensions of space as `dims`, or [channels]. */
typedef struct sample_shape {
    int channels, dims, side[MOST_DIMS];
} sample_shape;
int sample_size(const sample_shape *s);

typedef enum format { IDX, NPY, CSV, FORMATS } format;
typedef struct samples {
    format format;
    bool bytes; /* whole numbers of a byte, otherwise real ones */
    bool last;  /* npy: channels are the last dimension */
    sample_shape shape;
    int train, test, classes;
    unsigned absent; /* bit c: no sample has label c */
    int targets;     /* > 0: a sample has so many numbers to predict, and no label */
    double scale;    /* of these */
    int weights;     /* 0: none; 1: of all samples; 2: of some they are zero */
    uint64_t seed;
} samples;

/* A leaf of a layer that is split by hand along a dimension: 0, 1, out, in. */
enum { MOST_PINS = 2, PIN_DIMS = 4 };
typedef struct pin {
    int id, dim, axis; /* id 0: none */
} pin;

/* How a graph is spread; sizes of data, domain, tensor, pipeline. Or layers are placed by name on
 * `places` ranks: place[id] is one more than the rank; 0: wherever its input is. */
typedef struct way {
    int mesh[AXES];
    int zero;
    bool recompute, gpipe;
    int places, place[MOST_LAYERS + 1];
    pin pins[MOST_PINS];
    int elsewhere; /* of far_devices; 0: the case's own */
    int servers;   /* 0: as many as there are unsaid */
    int replicas;
} way;

/* Devices that compute as the reference does, in other memory. */
enum { FAR_DEVICES = 7 };
extern const char *const far_devices[FAR_DEVICES];

typedef enum meeting { NO_MEETING, AVERAGE, ONESHOT, SERVER, EASGD, GOSSIP, HOGWILD } meeting;
enum { BSP, ASYNC, SOFTSYNC, SSP };
enum { UPDATES, MEETINGS };
typedef struct exchange {
    meeting kind;
    int learners, every, state; /* state: index of keep, average, reset */
    bool outer;
    double lr, momentum;
    int policy, count, bound, scale; /* of servers; scale: index of none, inverse, exp */
    int push, fetch, back;           /* of servers; 0: unsaid; back: of hunt_codecs */
    double alpha;                    /* of easgd; 0: unsaid */
    int topology, mode;              /* of gossip: index of all, ring, torus, random */
    int sample;                      /* of hogwild */
    int codec;                       /* of hunt_codecs; 0: none is asked for */
} exchange;
enum { CODECS = 10 };
extern const char *const hunt_codecs[CODECS];

/* Options of the command that are a number, a choice or a flag; see option_rows. */
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
    BATCH,
    MICROBATCHES,
    VIRTUAL_WORKERS,
    STEPS,
    SEED,
    THREADS,
    DEVICE,
    DTYPE,
    NORMALIZE,
    CHECK_COLLECTIVES,
    NO_BIND,
    CHECKPOINT_EVERY,
    OPTIONS
} option_id;
enum { SGD, ADAM, ADAMW };
enum { CPU, REFERENCE };
enum { F32, F64 };
enum { AUTO, NONE };

typedef struct hunt_case {
    int layer_count;
    layer layers[MOST_LAYERS];
    samples samples;
    double options[OPTIONS]; /* of choices the index */
    exchange exchange;
    way way;
    int stop; /* > 0: the run is stopped after this step and goes on as `later` */
    way later;
    /* The way is run twice; weft plan describes it; its checkpoint is evaluated; as processes. */
    bool twice, plan, evaluate, processes;
    bool loss; /* the model says it */
} hunt_case;

/* --- drawing: draw.c, network.c --- */

typedef struct dice {
    uint64_t state;
} dice;
uint64_t roll(dice *d);
int between(dice *d, int low, int high); /* both may come */
bool chance(dice *d, double p);

/* What an option is when nothing is asked for; shrinking goes there. */
extern const double neutral_options[OPTIONS];
void draw_case(dice *d, hunt_case *c);
void draw_network(dice *d, hunt_case *c);
double one_of(dice *d, const double *list, int n);
#define ONE_OF(d, ...)                                                                             \
    one_of(d, (const double[]){__VA_ARGS__},                                                       \
           (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
void draw_exchange(dice *d, hunt_case *c);
/* Whether two runs of the same way come to the same bits, and whether runs of different ways come
 * to the same values: what is sent in full, in an order that is fixed. */
bool is_repeatable(const hunt_case *c);
bool is_comparable(const hunt_case *c);
bool goes_on_alike(const hunt_case *c);
bool has_servers(const exchange *e);
/* Servers that wait for all learners. */
bool is_synchronous(const exchange *e);

int way_ranks(const way *w);
int learners_of(const hunt_case *c);
/* The least samples that a (micro-)batch or worker of the case has, if it has any. */
int least_samples(const hunt_case *c);

/* What layer i makes; false: it cannot read what it is to read. */
bool layer_shape(const hunt_case *c, int i, sample_shape *out);
int outputs_of(const samples *s);
const char *kind_name(kind k);
/* A layer type of models that is never drawn, or NULL. */
const char *undrawn_layer(void);
/* The options of weft train. */
const weft_option *train_table(void);
weft_status train_options_init(weft_train_options *options);
void layer_name(const layer *l, char *out, size_t room);
/* Where rounding decides between two slopes (a norm of one number, or the
 * mean of what was normed, then relu), takes smooth
 * operators: no two orders of adding agree there. */
bool rounding_decides(const hunt_case *c);
void smooth_over(hunt_case *c);

/* --- writing it down: text.c, files.c --- */

typedef struct words {
    int count;
    char *word[96];
    char room[8192];
    size_t used;
} words;
void exchange_words(const exchange *e, char *out, size_t room);
/* The words behind `weft train`. folder: of checkpoints; NULL: none. */
void case_words(const hunt_case *c, const way *w, const char *folder, words *out);
void print_words(FILE *to, const char *before, const words *w);
void print_model(FILE *to, const hunt_case *c);
/* net.yaml and the data, into the present folder. */
void write_case(const hunt_case *c);

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
    double test_loss, figure; /* accuracy; of numbers R2 */
    tensors tensors;
    char command[4096];
} result;
/* Trains in this process, from the words of the command. Stops after step `stop` if that is > 0. */
void run_case(const hunt_case *c, const way *w, const char *folder, int stop, bool resume,
              result *out);
void result_free(result *r);
/* weft plan: that way as text, without running it. */
weft_status plan_case(const hunt_case *c, const way *w, char *message, size_t room);

/* Measures the test part with a checkpoint: test_loss and figure. */
void evaluate_case(const hunt_case *c, const char *folder, result *out);
/* command.c: the same through the command, as processes of MPI. Losses have nine digits there. */
extern const char *const hunt_command; /* "": this build has no MPI */
void run_command(const hunt_case *c, const way *w, const char *folder, result *out);

/* Reads every safetensors file of a checkpoint. false: there is none or it is damaged. */
bool tensors_read(const char *folder, tensors *out);
void tensors_free(tensors *t);
const tensor *tensors_find(const tensors *t, const char *name);
double tensor_at(const tensor *t, int64_t i);

/* --- judging: judge.c, refusals.c --- */

typedef enum fault { CLEAN, REFUSED, VALUES, BITS, SENTENCE, CRASH, HANG, SANITIZER, FAULTS } fault;
extern const char *const fault_names[FAULTS];

typedef struct verdict {
    fault fault;
    char stage[TEXT]; /* which run or comparison it was */
    char text[2048];
    char command[4096];
    int runs;
} verdict;
/* Runs a case in the present folder and says what was wrong. stage is kept up to date, so that a
 * parent knows where a child died. */
void judge(const hunt_case *c, verdict *out);
/* A pattern of the sentences that may be said, or NULL. */
const char *listed_refusal(const char *message);
bool is_divergence(const char *message);

/* --- main.c, shrink.c --- */

/* In a child, with limits. keep: the folder stays. */
verdict try_case(const hunt_case *c, const char *folder);
bool same_fault(const verdict *a, const verdict *b);
/* Makes a failing case as small as it gets. seconds: at most. */
void shrink(hunt_case *c, verdict *v, const char *folder, double seconds);

#endif
