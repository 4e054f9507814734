/* The option tables of the commands that use a checkpoint. */
#include <stddef.h>

#include "train/option_macros.h"
#include "train/train.h"

#define EVAL(field_)                                                                               \
    .size = sizeof(weft_eval_options), .offset = offsetof(weft_eval_options, field_)

/* Options of both evaluation and prediction. */
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
         .help = "data; default: those of the training run, which an export does not name"},       \
        {.name = "split",                                                                          \
         .argument = "PART",                                                                       \
         TEXT,                                                                                     \
         EVAL(split),                                                                              \
         .choices = "train,test,all",                                                              \
         .help = "part of the data; default: the test part of the training data, and all of "      \
                 "another file unless it has test="},                                              \
        {.name = "batch",                                                                          \
         .letter = 'b',                                                                            \
         .argument = "N",                                                                          \
         .initial = "100",                                                                         \
         WHOLE,                                                                                    \
         EVAL(batch),                                                                              \
         .low = 1,                                                                                 \
         .high = 1e9,                                                                              \
         .help = "samples per batch"},                                                             \
        {.name = "device",                                                                         \
         .argument = "NAME",                                                                       \
         .initial = "cpu",                                                                         \
         TEXT,                                                                                     \
         EVAL(device),                                                                             \
         .help = "device"},                                                                        \
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

const weft_option *weft_eval_table(void)
{
    return eval_table;
}
const weft_option *weft_predict_table(void)
{
    return predict_table;
}
