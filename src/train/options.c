/* The tables behind `weft train` and its relatives. */
#include <math.h>
#include <stddef.h>

#include "train/train.h"

#define RUN(field_) .offset = offsetof(weft_train_options, field_)
#define TEXT .kind = WEFT_OPT_STRING
#define WHOLE .kind = WEFT_OPT_INT
#define REAL .kind = WEFT_OPT_REAL
#define FLAG .kind = WEFT_OPT_FLAG
#define BIG 9007199254740992.0

static const weft_option train_table[] = {
    {.name = "model",
     .letter = 'm',
     .argument = "NAME|FILE",
     .initial = "lenet",
     TEXT,
     RUN(model),
     .group = "What to train",
     .help = "a built-in model (weft inspect --list) or a YAML file of layers"},
    {.name = "data",
     .letter = 'd',
     .argument = "SPEC",
     .initial = "glyphs",
     TEXT,
     RUN(data),
     .help = "training and test data: glyphs, idx:DIR, csv:FILE,label=COLUMN (a class) or "
             "csv:FILE,target=COLUMN (a number), npy:SAMPLES,LABELS or npy:SAMPLES,target=FILE"},
    {.name = "normalize",
     .argument = "HOW",
     .initial = "auto",
     TEXT,
     RUN(normalize),
     .choices = "auto,none,unit,standard",
     .help =
         "unit divides bytes by 255, standard uses the training mean and deviation; targets that "
         "are numbers are standardised unless it is none"},
    {.name = "epochs",
     .letter = 'e',
     .argument = "N",
     .initial = "1",
     WHOLE,
     RUN(epochs),
     .low = 1,
     .high = 1e9,
     .help = "times through the training data"},
    {.name = "steps",
     .argument = "N",
     .initial = "0",
     WHOLE,
     RUN(steps),
     .low = 0,
     .high = 2e9,
     .help = "end after N steps in all; 0: after the epochs"},
    {.name = "batch",
     .letter = 'b',
     .argument = "N",
     .initial = "100",
     WHOLE,
     RUN(batch),
     .low = 1,
     .high = 1e9,
     .help = "samples a step"},
    {.name = "microbatches",
     .argument = "M",
     .initial = "1",
     WHOLE,
     RUN(microbatches),
     .low = 1,
     .high = 1e6,
     .help =
         "cut each batch into M micro-batches and add their gradients; a pipeline overlaps them"},
    {.name = "seed",
     .argument = "N",
     .initial = "1",
     WHOLE,
     RUN(seed),
     .low = 0,
     .high = BIG,
     .help = "of weights, sample order and dropout"},

    {.name = "optimizer",
     .letter = 'o',
     .argument = "NAME",
     .initial = "adam",
     TEXT,
     RUN(optimizer),
     .group = "How to train",
     .choices = "sgd,adam,adamw",
     .help = "update rule"},
    {.name = "lr",
     .argument = "X",
     .initial = "0.001",
     REAL,
     RUN(lr),
     .low = 1e-30,
     .high = 1e6,
     .help = "learning rate"},
    {.name = "lr-schedule",
     .argument = "NAME",
     .initial = "constant",
     TEXT,
     RUN(lr_schedule),
     .choices = "constant,step,cosine",
     .help = "course of the learning rate"},
    {.name = "warmup",
     .argument = "STEPS",
     .initial = "0",
     WHOLE,
     RUN(warmup),
     .low = 0,
     .high = 1e9,
     .help = "steps in which the learning rate grows linearly"},
    {.name = "decay-every",
     .argument = "STEPS",
     .initial = "1000",
     WHOLE,
     RUN(decay_every),
     .low = 1,
     .high = 1e9,
     .help = "lr-schedule step: steps between drops"},
    {.name = "gamma",
     .argument = "X",
     .initial = "0.1",
     REAL,
     RUN(gamma),
     .low = 1e-12,
     .high = 1,
     .help = "lr-schedule step: factor of a drop"},
    {.name = "lr-floor",
     .argument = "X",
     .initial = "0",
     REAL,
     RUN(lr_floor),
     .low = 0,
     .high = 1e6,
     .help = "lr-schedule cosine: last learning rate"},
    {.name = "momentum",
     .argument = "X",
     .initial = "0",
     REAL,
     RUN(momentum),
     .low = 0,
     .high = 0.999999999,
     .help = "sgd"},
    {.name = "nesterov",
     .initial = "false",
     FLAG,
     RUN(nesterov),
     .help = "sgd: Nesterov's momentum"},
    {.name = "weight-decay",
     .argument = "X",
     .initial = "0",
     REAL,
     RUN(weight_decay),
     .low = 0,
     .high = 1e6,
     .help = "sgd, adam: added to the gradient; adamw: decoupled"},
    {.name = "beta1",
     .argument = "X",
     .initial = "0.9",
     REAL,
     RUN(beta1),
     .low = 0,
     .high = 0.999999999,
     .help = "adam: decay of the first moment"},
    {.name = "beta2",
     .argument = "X",
     .initial = "0.999",
     REAL,
     RUN(beta2),
     .low = 0,
     .high = 0.999999999,
     .help = "adam: decay of the second moment"},
    {.name = "epsilon",
     .argument = "X",
     .initial = "1e-8",
     REAL,
     RUN(epsilon),
     .low = 1e-30,
     .high = 1,
     .help = "adam: keeps the division finite"},
    {.name = "clip-norm",
     .argument = "X",
     .initial = "0",
     REAL,
     RUN(clip_norm),
     .low = 0,
     .high = 1e30,
     .help = "scale gradients down to this global norm; 0: never"},

    {.name = "device",
     .argument = "NAME",
     .initial = "cpu",
     TEXT,
     RUN(device),
     .group = "Where to run",
     .help = "cpu is fast, reference is slow and simple (weft inspect --list knows all); "
             "several, with commas: ranks take them in turn"},
    {.name = "dtype",
     .argument = "TYPE",
     .initial = "f32",
     TEXT,
     RUN(dtype),
     .choices = "f32,f64",
     .help = "numbers of weights and activations"},
    {.name = "threads",
     .letter = 't',
     .argument = "N",
     .initial = "0",
     WHOLE,
     RUN(threads),
     .low = 0,
     .high = 1024,
     .help = "threads of each rank; 0: the cores of a machine shared out over its ranks"},

    {.name = "ranks",
     .letter = 'n',
     .argument = "RANKS",
     .initial = "1",
     WHOLE,
     RUN(ranks),
     .low = 0,
     .high = WEFT_MAX_RANKS,
     .group = "How to run in parallel (see docs/guide/strategies.md)",
     .help = "ranks of the job: learners times mesh; under mpirun or srun as many as were started"},
    {.name = "engine",
     .argument = "NAME",
     .initial = "threads",
     TEXT,
     RUN(engine),
     .choices = "threads,mpi",
     .help = "ranks are threads of this process, or MPI processes"},
    {.name = "mesh",
     .argument = "AXIS=N,...",
     TEXT,
     RUN(mesh),
     .help = "axes of a learner's ranks: data (batch), domain (height), tensor (weights), pipeline "
             "(layers); all ranks on data unless said"},
    {.name = "zero",
     .argument = "STAGE",
     .initial = "0",
     WHOLE,
     RUN(zero),
     .low = 0,
     .high = 3,
     .help = "split over the data axis: 1 optimizer state, 2 also gradients, 3 also parameters"},
    {.name = "virtual-workers",
     .argument = "V",
     .initial = "0",
     WHOLE,
     RUN(virtual_workers),
     .low = 0,
     .high = 65536,
     .help = "compute the batch as V workers: a data axis of 1, 2 .. V ranks gives the same bits"},
    {.name = "schedule",
     .argument = "NAME",
     .initial = "1f1b",
     TEXT,
     RUN(schedule),
     .choices = "gpipe,1f1b",
     .help = "order of micro-batches in a pipeline"},
    {.name = "profile",
     .initial = "false",
     FLAG,
     RUN(profile),
     .help = "balance the stages of a pipeline by measured times instead of an estimate"},
    {.name = "no-bind",
     .initial = "false",
     FLAG,
     RUN(no_bind),
     .help = "let the ranks of a machine share its cores, instead of a set of its own for each"},
    {.name = "recompute",
     .initial = "false",
     FLAG,
     RUN(recompute),
     .help = "keep few results of forward and compute the others again in backward"},
    {.name = "shard",
     .argument = "LEAF:DIM=AXIS,...",
     TEXT,
     RUN(shard),
     .help = "split a parameter by hand: 'fc1/weight:out=tensor'"},
    {.name = "place",
     .argument = "PATTERN=cpu:K,...",
     TEXT,
     RUN(place),
     .help = "run operators whose names match on rank K, instead of a mesh"},
    {.name = "exchange",
     .argument = "SPEC",
     TEXT,
     RUN(exchange),
     .help = "between learners: average:every=H[,outer=nesterov,lr=X,momentum=X][,state=...] or "
             "oneshot"},
    {.name = "hosts",
     .argument = "NAME:N,...",
     TEXT,
     RUN(hosts),
     .help = "engine mpi: machines and their ranks, as mpirun takes them"},
    {.name = "max-restarts",
     .argument = "R",
     .initial = "0",
     WHOLE,
     RUN(max_restarts),
     .low = 0,
     .high = 1e6,
     .help = "when a rank dies, go on from the newest checkpoint, R times at most"},
    {.name = "timeout",
     .argument = "SECONDS",
     .initial = "300",
     REAL,
     RUN(timeout),
     .low = 0.1,
     .high = 1e6,
     .help = "give up when a rank has not come for so long"},
    {.name = "check-collectives",
     .initial = "false",
     FLAG,
     RUN(check_collectives),
     .help = "compare what all ranks are about to do before each collective"},

    {.name = "checkpoint",
     .letter = 'c',
     .argument = "DIR",
     TEXT,
     RUN(checkpoint),
     .group = "What to keep",
     .help = "write DIR/step-N after each epoch and at the end"},
    {.name = "checkpoint-every",
     .argument = "STEPS",
     .initial = "0",
     WHOLE,
     RUN(checkpoint_every),
     .low = 0,
     .high = 1e9,
     .help = "write also every STEPS steps; 0: no"},
    {.name = "keep",
     .argument = "K",
     .initial = "3",
     WHOLE,
     RUN(keep),
     .low = 1,
     .high = 1e6,
     .help = "checkpoints to keep"},
    {.name = "resume",
     .letter = 'r',
     .initial = "false",
     FLAG,
     RUN(resume),
     .help = "go on from DIR/latest, bit for bit; start anew if there is none"},
    {.name = "metrics",
     .argument = "FILE",
     TEXT,
     RUN(metrics),
     .help = "write one JSON object a line for each step and evaluation; - is standard output"},
    {.name = "trace",
     .argument = "FILE",
     TEXT,
     RUN(trace),
     .help = "write the first 100 steps, instruction by instruction, as Chrome trace events"},
    {.name = "quiet",
     .letter = 'q',
     .initial = "false",
     FLAG,
     RUN(quiet),
     .help = "print errors only"},
    {.name = "progress",
     .argument = "HOW",
     .initial = "auto",
     TEXT,
     RUN(progress),
     .choices = "auto,bar,lines",
     .help = "a bar on a terminal, or lines; auto: a bar if standard output is a terminal"},
    {.name = NULL},
};

#define EVAL(field_) .offset = offsetof(weft_eval_options, field_)

/* What evaluation and prediction share. */
#define EVAL_ROWS                                                                                  \
    {.name = "checkpoint",                                                                         \
     .letter = 'c',                                                                                \
     .argument = "DIR",                                                                            \
     TEXT,                                                                                         \
     EVAL(checkpoint),                                                                             \
     .group = "Input",                                                                             \
     .help = "a checkpoint: DIR/latest, DIR/step-N, or DIR"},                                      \
        {.name = "data",                                                                           \
         .letter = 'd',                                                                            \
         .argument = "SPEC",                                                                       \
         TEXT,                                                                                     \
         EVAL(data),                                                                               \
         .help = "data; those of the training run unless said"},                                   \
        {.name = "split",                                                                          \
         .argument = "PART",                                                                       \
         .initial = "test",                                                                        \
         TEXT,                                                                                     \
         EVAL(split),                                                                              \
         .choices = "train,test",                                                                  \
         .help = "which part of the data"},                                                        \
        {.name = "batch",                                                                          \
         .letter = 'b',                                                                            \
         .argument = "N",                                                                          \
         .initial = "100",                                                                         \
         WHOLE,                                                                                    \
         EVAL(batch),                                                                              \
         .low = 1,                                                                                 \
         .high = 1e9,                                                                              \
         .help = "samples at a time"},                                                             \
        {.name = "device",                                                                         \
         .argument = "NAME",                                                                       \
         .initial = "cpu",                                                                         \
         TEXT,                                                                                     \
         EVAL(device),                                                                             \
         .help = "where to run"},                                                                  \
        {.name = "threads",                                                                        \
         .letter = 't',                                                                            \
         .argument = "N",                                                                          \
         .initial = "0",                                                                           \
         WHOLE,                                                                                    \
         EVAL(threads),                                                                            \
         .low = 0,                                                                                 \
         .high = 1024,                                                                             \
         .help = "threads of the device; 0: one for each core"},                                   \
        {.name = "json",                                                                           \
         .initial = "false",                                                                       \
         FLAG,                                                                                     \
         EVAL(json),                                                                               \
         .group = "Output",                                                                        \
         .help = "print JSON"},

static const weft_option eval_table[] = {
    EVAL_ROWS{.name = "confusion",
              .initial = "false",
              FLAG,
              EVAL(confusion),
              .help = "print the confusion matrix"},
    {.name = "quiet",
     .letter = 'q',
     .initial = "false",
     FLAG,
     EVAL(quiet),
     .help = "print errors only"},
    {.name = NULL},
};

static const weft_option predict_table[] = {
    EVAL_ROWS{.name = "output",
              .letter = 'o',
              .argument = "FILE",
              TEXT,
              EVAL(output),
              .help = "write predictions to FILE; - is standard output"},
    {.name = NULL},
};

const weft_option *weft_train_table(void)
{
    return train_table;
}
const weft_option *weft_eval_table(void)
{
    return eval_table;
}
const weft_option *weft_predict_table(void)
{
    return predict_table;
}

weft_status weft_train_options_copy(const weft_train_options *from, weft_train_options *to)
{
    *to = (weft_train_options){0};
    for (const weft_option *o = train_table; o->name; o++) {
        char *text;
        weft_status status = weft_options_get(train_table, from, o->name, &text);
        if (status == WEFT_OK && text) status = weft_options_set(train_table, to, o->name, text);
        free(text);
        if (status != WEFT_OK) {
            weft_options_free(train_table, to);
            return status;
        }
    }
    return WEFT_OK;
}
