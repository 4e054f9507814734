/* The option tables of the commands that use a checkpoint. */
#include <stddef.h>

#include "base/option_rows.h"
#include "train/train.h"

#define EVAL(field_)                                                                               \
    .size = sizeof(weft_eval_options), .offset = offsetof(weft_eval_options, field_)

/* Options of both evaluation and prediction. */
#define EVAL_ROWS                                                                                  \
    OPTION("checkpoint", "DIR", TEXT, EVAL(checkpoint), .letter = 'c', .group = "Input",           \
           .help = "a checkpoint: DIR (its newest), DIR/best, or DIR/step-N"),                     \
        OPTION("data", "SPEC", TEXT, EVAL(data), .letter = 'd',                                    \
               .help = "data; default: those of the training run, which an export does not name"), \
        OPTION("split", "PART", TEXT, EVAL(split), .choices = "train,validation,test,all",         \
               .help =                                                                             \
                   "part of the data; default: the test part of the training data (where they "    \
                   "have none, that of validation), and all of another file unless it has test="), \
        OPTION("batch", "N", WHOLE("100", 1, 1e9), EVAL(batch), .letter = 'b',                     \
               .help = "samples per batch"),                                                       \
        OPTION("device", "NAME", TEXT_IS("cpu"), EVAL(device), .help = "device"),                  \
        OPTION("threads", "N", WHOLE("0", 0, 1024), EVAL(threads), .letter = 't',                  \
               .help = "threads of the device; 0: one for each core"),                             \
        OPTION("json", NULL, FLAG, EVAL(json), .group = "Output", .help = "print JSON")

static const weft_option eval_table[] = {
    EVAL_ROWS,
    OPTION("metric", "NAME,...", TEXT, EVAL(metric),
           .help = "also report these metrics (weft help metrics): auc,top5"),
    OPTION("by-class", NULL, FLAG, EVAL(by_class),
           .help = "print precision, recall, F1 and support of each class"),
    OPTION("confusion", NULL, FLAG, EVAL(confusion), .help = "print the confusion matrix"),
    OPTION("quiet", NULL, FLAG, EVAL(quiet), .letter = 'q', .help = "print errors only"),
    {.name = NULL},
};

static const weft_option predict_table[] = {
    EVAL_ROWS,
    OPTION("output", "FILE", TEXT, EVAL(output), .letter = 'o',
           .help = "write predictions to FILE; - is standard output"),
    OPTION("join", NULL, FLAG, EVAL(join),
           .help = "write the columns of the table as well, and the probabilities of all classes"),
    OPTION("masks", "DIR", TEXT, EVAL(masks),
           .help =
               "write the predicted classes of the pixels of each picture to DIR/NAME.png, in a "
               "new folder"),
    OPTION("mask-size", "SIZE", TEXT, EVAL(mask_size), .choices = "picture,sample",
           .help = "size of masks: that of the picture, of which 255 marks the edges that samples "
                   "lack, or that of samples; default: picture"),
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
