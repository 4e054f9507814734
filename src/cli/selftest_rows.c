/* The pairs of runs that weft selftest compares. */
#include "selftest.h"

#include <stdio.h>

#define GLYPHS "data=glyphs:size=9,train=96,test=40 model=mlp seed=4 "
#define EXACT "threads=1 dtype=f64 device=reference optimizer=adam lr=0.01 "
#define SMALL GLYPHS EXACT "steps=7 "
#define PLAIN GLYPHS "threads=1 dtype=f64 device=reference optimizer=sgd lr=0.2 steps=8 "
#define LAYERS                                                                                     \
    "data=glyphs:size=9,train=96,test=40 model=layers.yaml seed=4 " EXACT "steps=4 batch=12 "
#define DROPOUT "data=glyphs:size=9,train=96,test=40 model=dropout.yaml seed=4 steps=6 "
#define FAST GLYPHS "threads=1 steps=7 batch=16 "
/* MEANS: the only feature is constant, so all learners have the same Hessian. APART: sample i has
 * only feature i, so that no two samples update the same weight. */
#define MEANS                                                                                      \
    "data=csv:means.csv,target=y,test=0.2 model=line.yaml normalize=none seed=3 threads=1 "        \
    "dtype=f64 device=reference optimizer=sgd lr=0.05 steps=12 "
#define APART                                                                                      \
    "data=csv:apart.csv,label=40,test=0.2 model=apart.yaml normalize=none seed=3 threads=1 "       \
    "dtype=f64 device=reference optimizer=sgd lr=0.5 batch=4 epochs=1 "

#define BITS(name, words, one, other)                                                              \
    {                                                                                              \
        name, words, one, other, 0, false                                                          \
    }
#define NEAR(name, words, one, other, close)                                                       \
    {                                                                                              \
        name, words, one, other, close, false                                                      \
    }
#define STEPS(name, words, one, other)                                                             \
    {                                                                                              \
        name, words, one, other, 1e-9, true                                                        \
    }

const selftest_row selftest_rows[] = {
    STEPS("a batch over two ranks: one rank", SMALL "batch=16", "", "ranks=2"),
    BITS("virtual workers on four ranks: on one", SMALL "batch=16 virtual-workers=4", "",
         "ranks=4"),
    BITS("the same in single precision", FAST "virtual-workers=4", "", "ranks=2"),
    STEPS("weights over two ranks: one rank", LAYERS, "", "ranks=2 mesh=tensor=2"),
    STEPS("rows of images over two ranks: one rank", LAYERS, "", "ranks=2 mesh=domain=2"),
    STEPS("two axes at once: one rank", LAYERS, "", "ranks=4 mesh=data=2,tensor=2"),
    BITS("optimizer's state in parts: whole", SMALL "batch=16 ranks=2", "", "zero=1"),
    BITS("gradients in parts: whole", SMALL "batch=16 ranks=2", "", "zero=2"),
    BITS("weights in parts: whole", SMALL "batch=16 ranks=2", "", "zero=3"),
    STEPS("two stages, 1f1b: micro-batches on one rank", LAYERS "microbatches=4", "",
          "ranks=2 mesh=pipeline=2"),
    STEPS("two stages, gpipe: micro-batches on one rank", LAYERS "microbatches=4", "",
          "ranks=2 mesh=pipeline=2 schedule=gpipe"),
    BITS("a pipeline of one stage: micro-batches", SMALL "batch=16 microbatches=4", "",
         "mesh=pipeline=1"),
    BITS("computed again in backward: kept", LAYERS, "", "recompute=true"),
    NEAR("average of every step: one batch", PLAIN, "batch=16",
         "batch=4 ranks=4 exchange=average:every=1", 1e-9),
    NEAR("average, one Hessian, every 4 steps: one batch", MEANS, "batch=8",
         "batch=4 ranks=2 exchange=average:every=4", 1e-9),
    BITS("outer optimizer with lr 1: averaging", SMALL "batch=4 ranks=4",
         "exchange=average:every=3", "exchange=average:every=3,outer=nesterov,lr=1,momentum=0"),
    BITS("server, bsp: four ranks share a batch", SMALL "ranks=4", "batch=16",
         "batch=4 exchange=server:policy=bsp servers=3"),
    BITS("the same, with dropout", DROPOUT EXACT "ranks=4", "batch=16",
         "batch=4 exchange=server:policy=bsp servers=3"),
    NEAR("average of every step, with dropout: one batch",
         DROPOUT "threads=1 dtype=f64 device=reference optimizer=sgd lr=0.2", "batch=16",
         "batch=4 ranks=4 exchange=average:every=1", 1e-9),
    BITS("server, ssp with bound 0: bsp", SMALL "batch=4 ranks=4", "exchange=server:policy=bsp",
         "exchange=server:policy=ssp,bound=0 servers=2"),
    BITS("simulated, ssp without bound: async", SMALL "batch=4 ranks=4",
         "simulate exchange=server:policy=async", "simulate exchange=server:policy=ssp,bound=inf"),
    BITS("simulated, softsync of 1: async", SMALL "batch=4 ranks=4",
         "simulate exchange=server:policy=async", "simulate exchange=server:policy=softsync,c=1"),
    BITS("simulated, async, one learner: serial", SMALL "batch=5", "",
         "simulate exchange=server:policy=async servers=2"),
    BITS("scaled by staleness where none is stale: unscaled", SMALL "batch=4 ranks=4",
         "exchange=server:policy=bsp", "exchange=server:policy=bsp,scale=inverse"),
    BITS("the same, scale=exp", SMALL "batch=4 ranks=4", "exchange=server:policy=bsp",
         "exchange=server:policy=bsp,scale=exp"),
    BITS("the largest of all are all: uncompressed", SMALL "batch=4 ranks=4",
         "exchange=server:policy=bsp", "exchange=server:policy=bsp compress=topk:ratio=1"),
    NEAR("a threshold near 0: uncompressed", PLAIN "batch=4 ranks=4", "exchange=server:policy=bsp",
         "exchange=server:policy=bsp compress=threshold:tau=1e-9", 1e-5),
    BITS("hogwild, disjoint supports: serial", APART, "", "ranks=2 exchange=hogwild"),
    BITS("simulated, bsp: the real run", SMALL "batch=4 ranks=4", "exchange=server:policy=bsp",
         "simulate exchange=server:policy=bsp servers=3"),
    BITS("the same, with dropout", DROPOUT EXACT "batch=4 ranks=4", "exchange=server:policy=bsp",
         "simulate exchange=server:policy=bsp servers=3"),
    BITS("simulated, bsp, single precision: the real run", FAST "ranks=4", "exchange=server",
         "simulate exchange=server"),
};
const int selftest_row_count = (int)(sizeof(selftest_rows) / sizeof(selftest_rows[0]));

static bool write_text(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    if (!f) return false;
    bool whole = fputs(text, f) >= 0;
    return fclose(f) == 0 && whole;
}

bool selftest_write(void)
{
    FILE *means = fopen("means.csv", "w"), *apart = fopen("apart.csv", "w");
    enum { MEANS_ROWS = 200, APART_ROWS = 40 };
    for (int i = 0; means && i < MEANS_ROWS; i++)
        fprintf(means, "%s1,%d.%d\n", i ? "" : "x,y\n", i * 37 % 11, i % 7);
    for (int i = 0; apart && i < APART_ROWS; i++) {
        for (int j = 0; j < APART_ROWS; j++) fprintf(apart, "%d,", i == j);
        fprintf(apart, "%d\n", i % 3);
    }
    bool whole = means && apart && !ferror(means) && !ferror(apart);
    if (means) whole = fclose(means) == 0 && whole;
    if (apart) whole = fclose(apart) == 0 && whole;
    return whole &&
           write_text("line.yaml", "loss: mse\nlayers:\n  - {type: dense, units: outputs}\n") &&
           write_text("layers.yaml",
                      "layers:\n  - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
                      "  - {type: relu}\n  - {type: maxpool}\n"
                      "  - {type: dense, units: 12}\n  - {type: relu}\n"
                      "  - {type: dense, units: outputs}\n") &&
           write_text("dropout.yaml",
                      "layers:\n  - {type: dense, units: 12}\n  - {type: relu}\n"
                      "  - {type: dropout, rate: 0.4}\n  - {type: dense, units: outputs}\n") &&
           write_text("apart.yaml", "layers:\n  - {type: dense, units: outputs, bias: false}\n");
}
