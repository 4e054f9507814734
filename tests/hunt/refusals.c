/* The list of all error messages with which the library may refuse a drawn case; any other message
 * is a failure of the hunt. '*' matches any text. The list has only messages that tell a user what
 * is wrong with the options or data; a message about the library's internals, such as "node
 * 'x/slice': must be f32", is never listed. */
#include <fnmatch.h>

#include "hunt.h"

static const char *const listed[] = {
    /* batch and data */
    "batch is *, the training part has only * samples; give --batch * or less",
    "data '*': the training part is empty",
    "batch * cannot be cut into * equal micro-batches*",
    "* virtual workers share a batch of * samples; give at most * virtual workers",
    "*the data have 1 class, a classifier needs at least 2",
    "class-weights has * number*, and the data have * class*; give one for each, *",
    "all weights of the * part are 0, so that no sample counts",
    "*layer '*' (batch_norm): expected more than 1 value per channel when training, got *",
    /* models that have diverged */
    "*: the predictions for * of * samples are not finite (the first one: sample *); *",
    "*: the loss is *; the parameters have diverged",
    /* types, where a case is made simpler */
    "--weights bf16 and --dtype * contradict each other: *; give --dtype bf16",
    "exchange * makes the update itself, on parameters in f32, and --weights bf16 is about *",
    "virtual workers have the same bits on any number of ranks, and gradients that cross ranks in "
    "*",
    /* servers */
    "servers is *, and the model has only * parameter* to share out; give --servers *",
    ("exchange easgd: --compress * gathers gradients with a momentum of *; give the codec "
     "momentum=0"),
    /* devices */
    "device opencl: there is no OpenCL platform here*",
    ("shard: '*' is to be split over the data axis, whose ranks have unlike shares of the batch; "
     "split it over another axis, or leave --shares out"),
    "*would be exchanged between the ranks of the data axis by samples (*), which needs equal "
    "shares; leave --shares out",
    /* meshes */
    "batch is *, which cannot be shared out to * ranks*; give --batch *",
    "batch * in * micro-batches is * each, which cannot be shared out to * ranks*; give --batch *",
    ("mesh domain=*: '*' is *, and the first dimension of space, such as the height of images, has "
     "* to share out; give domain=* or less"),
    ("mesh domain=*: '*' is * (batch, then positions), and has * to share out; give domain=* or "
     "less"),
    ("node '*' (*): mesh domain=* would split the * positions of a recurrence, each of which needs "
     "the "
     "one before it; use the axis data, which splits the batch, or pipeline, which splits the "
     "layers"),
    "a pipeline of * stages: this model has * operators to share out",
    /* generation */
    "*node '*' (*) *, so the model cannot generate one token after the other",
    /* places and pins */
    "place: nothing runs on rank * of *; place something there or start fewer ranks",
    "shard: dimension * of '*' has * elements, too few for *=*",
    "shard: '*' has no dimension '*'; give a number from 0 to *",
    "shard: '*' is split twice in a way that cannot be combined",
};

/* A drawn run may diverge. The rank that finds the loss or parameter that is not finite reports one
 * of these messages. */
bool is_divergence(const char *message)
{
    return fnmatch("step *: the loss is *A smaller --lr, --clip-norm or --warmup may help", message,
                   0) == 0 ||
           fnmatch("after step * holds a number that is not finite; *", message, 0) == 0;
}

const char *listed_refusal(const char *message)
{
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++)
        if (fnmatch(listed[i], message, 0) == 0) return listed[i];
    return NULL;
}
