/* The option table of `weft train`: name, default, range, group and help of each option. */
#include <math.h>
#include <stddef.h>

#include "base/option_rows.h"
#include "train/train.h"

#define RUN(field_) .offset = offsetof(weft_train_options, field_)
#define BIG 9007199254740992.0

const weft_option weft_train_rows[] = {
    OPTION(
        "model", "NAME|FILE", TEXT_IS("lenet"), RUN(task.model), .letter = 'm',
        .group = "Model and data",
        .help =
            "a built-in model, also with arguments as in gpt:layers=6 (weft inspect --list), or a "
            "YAML file of layers"),
    OPTION("data", "SPEC", TEXT_IS("glyphs"), RUN(task.data), .letter = 'd',
           .forms = WEFT_KIND_DATA, .help = "training and test data: "),
    OPTION("validation", "SHARE|SPEC", TEXT, RUN(task.validation),
           .help = "evaluate epochs on a share of the training data, as 0.1, drawn by --seed and "
                   "left out of the training, or on other data, and the test data at the end "
                   "alone"),
    OPTION(
        "normalize", "HOW", TEXT_IS("auto"), RUN(task.normalize), .names = WEFT_KIND_NORMALIZATION,
        .help =
            "scaling of inputs: unit divides bytes by 255, standard subtracts the training mean "
            "and divides by the deviation; numeric targets are standardised too, except with none"),
    OPTION("augment", "NAME[:KEY=X],...", TEXT, RUN(samples.augment),
           .help = "random changes of the pictures of the training, in this order, as in "
                   "'crop:pad=4,flip,color=0.2' (weft help augmentations)"),
    OPTION("epochs", "N", WHOLE("1", 1, 1e9), RUN(length.epochs), .letter = 'e',
           .help = "passes over the training data; without effect if --steps is given"),
    OPTION("steps", "N", WHOLE("0", 0, 2e9), RUN(length.steps),
           .help = "total number of steps, which wins over --epochs, even if it takes more "
                   "passes; 0: given by the epochs"),
    OPTION("batch", "N", WHOLE("100", 1, 1e9), RUN(length.batch), .letter = 'b',
           .help = "samples per step"),
    OPTION("microbatches", "M", WHOLE("1", 1, 1e6), RUN(length.microbatches),
           .help = "gradient accumulation: a batch is cut into M micro-batches, whose gradients "
                   "are added; a pipeline overlaps them"),
    OPTION("carry-state", NULL, FLAG, RUN(length.carry_state),
           .help = "recurrent states carry over: each row of a batch continues that of the batch "
                   "before, in the order of the text; back-propagation ends at its beginning"),
    OPTION("noise-scale", "STEPS", WHOLE("0", 0, 1e9), RUN(show.noise_scale),
           .help =
               "measure the noise scale of gradients every STEPS steps: the batch from which on "
               "more samples hardly help; 0: no"),
    OPTION("evaluate-every", "STEPS", WHOLE("0", 0, 1e9), RUN(output.evaluate_every),
           .help = "also evaluate every STEPS steps, not after epochs alone; 0: no"),
    OPTION("metric", "NAME,...", TEXT, RUN(output.metric),
           .help = "also report these metrics in evaluations (weft help metrics): auc,top5"),
    OPTION("patience", "N", WHOLE("0", 0, 1e9), RUN(length.patience),
           .help = "end the run after N evaluations without a better one, by the metric of "
                   "--keep-best or else the loss; 0: no"),
    OPTION("phases", "EPOCH:WORDS;...", TEXT, RUN(length.phases),
           .help = "other options from an epoch on, as a run that is resumed there with them, such "
                   "as '3: exchange=average:every=8; 9: lr=1e-4'; needs --checkpoint"),
    OPTION("rechoose", "FILE:LIST", TEXT, RUN(parallel.rechoose),
           .help = "at the end of an epoch go on with those options of the list that get furthest "
                   "in a second, by the noise scale and the times of this cluster file, such as "
                   "'here.yaml: exchange=average; exchange=average:every=8'; needs --noise-scale, "
                   "--checkpoint"),
    OPTION("seed", "N", WHOLE("1", 0, BIG), RUN(task.seed),
           .help = "seed of weights, sample order and dropout"),
    OPTION("init", "FILE[:MAP]", TEXT, RUN(task.init),
           .help = "begin with the weights of a checkpoint or a safetensors file where names and "
                   "shapes fit; features, classes and tokens keep theirs by name; MAP, torch or a "
                   "file of lines their/name -> our/name, renames and "
                   "transposes"),

    OPTION("optimizer", "NAME[:KEY=VALUE,...]", TEXT_IS("adam"), RUN(update.optimizer),
           .letter = 'o', .group = "Optimization", .names = WEFT_KIND_OPTIMIZER,
           .forms = WEFT_KIND_OPTIMIZER, .help = "optimizer: "),
    OPTION("lr", "X", REAL("0.001", 1e-30, 1e6), RUN(update.lr), .help = "learning rate"),
    OPTION("lr-schedule", "NAME[:KEY=VALUE,...]", TEXT_IS("constant"), RUN(update.lr_schedule),
           .names = WEFT_KIND_RATE, .forms = WEFT_KIND_RATE, .help = "learning rate schedule: "),
    OPTION("warmup", "STEPS", WHOLE("0", 0, 1e9), RUN(update.warmup),
           .help = "steps of linear warm-up of the learning rate; none with one-cycle"),
    OPTION("decay-every", "STEPS", WHOLE("1000", 1, 1e9), RUN(update.decay_every),
           .with = "lr-schedule", .help = "lr-schedule step: steps between two decays"),
    OPTION("gamma", "X", REAL("0.1", 1e-12, 1), RUN(update.gamma), .with = "lr-schedule",
           .help = "lr-schedule step, plateau: factor of each decay"),
    OPTION("lr-floor", "X", REAL("0", 0, 1e6), RUN(update.lr_floor), .with = "lr-schedule",
           .help =
               "lr-schedule cosine, linear, plateau: final learning rate; range-test: first one"),
    OPTION("lr-multiplier", "PATTERN=X,...", TEXT, RUN(update.lr_multiplier),
           .help =
               "factors of the learning rate of parameters with matching names; 0 freezes them: "
               "'conv*=0,fc2/*=0.1'"),
    OPTION("freeze", "PATTERN,...", TEXT, RUN(weights.freeze),
           .help =
               "parameters with matching names stay as they are, 'conv*': they have no gradient "
               "and no optimizer state"),
    OPTION("unfreeze", "EPOCH", WHOLE("0", 0, 1e9), RUN(weights.unfreeze), .with = "freeze",
           .help = "train them from this epoch on, with new optimizer state, as a run that is "
                   "resumed there without --freeze; needs --checkpoint; 0: never"),
    OPTION("momentum", "X", REAL("0", 0, 0.999999999), RUN(update.momentum), .with = "optimizer",
           .help = "sgd: momentum coefficient"),
    OPTION("nesterov", NULL, FLAG, RUN(update.nesterov), .with = "optimizer",
           .help = "sgd: Nesterov momentum"),
    OPTION("weight-decay", "X", REAL("0", 0, 1e6), RUN(update.weight_decay),
           .help = "weight decay: an L2 term in the gradient, or decoupled from it, as adamw, "
                   "lion, adafactor and muon have it"),
    OPTION("beta1", "X", REAL("0.9", 0, 0.999999999), RUN(update.beta1), .with = "optimizer",
           .help = "adam, adamw: decay rate of the first moment"),
    OPTION("beta2", "X", REAL("0.999", 0, 0.999999999), RUN(update.beta2), .with = "optimizer",
           .help = "adam, adamw: decay rate of the second moment"),
    OPTION("epsilon", "X", REAL("1e-8", 1e-30, 1), RUN(update.epsilon), .with = "optimizer",
           .help = "adam, adamw: added to the denominator"),
    OPTION("clip-norm", "X", REAL("0", 0, 1e30), RUN(update.clip_norm),
           .help = "clip gradients to this global norm; 0: no clipping"),
    OPTION("ema", "DECAY[:warmup]", TEXT, RUN(weights.ema),
           .help =
               "average the weights over the steps, as 0.999; evaluations, best checkpoints and "
               "all that reads a checkpoint later use the averages; warmup: the decay rises, as "
               "n / (n + 9) behind n steps"),
    OPTION("loss", "NAME[:KEY=VALUE]", TEXT, RUN(update.loss), .names = WEFT_KIND_LOSS,
           .forms = WEFT_KIND_LOSS,
           .help = "loss, in place of that of the model, which is cross_entropy for classes and "
                   "mse for numbers if it names none: "),
    OPTION("class-weights", "HOW", TEXT, RUN(update.class_weights),
           .help = "loss of classes: in training, weights of the classes, A,B,... in their order, "
                   "or balanced, so that all classes weigh alike"),
    OPTION("label-smoothing", "X", REAL("0", 0, 0.999999), RUN(update.label_smoothing),
           .help = "loss of classes: in training, spread this probability evenly over all classes"),

    OPTION("device", "NAME", TEXT_IS("cpu"), RUN(where.device), .group = "Device",
           .help = "cpu is fast, reference is slow and simple, cuda[:K] is an NVIDIA card, "
                   "opencl[:PLATFORM.DEVICE] is a graphics card or another device of OpenCL (weft "
                   "inspect --list names others); a list with commas is assigned to ranks in turn, "
                   "cpu:cores=0-3+8 is a rank on these cores; a path loads a plug-in"),
    OPTION("home", "WHERE", TEXT_IS("device"), RUN(where.home), .choices = "device,cpu",
           .help =
               "where parameters and optimizer state are kept and updated: on the device, or in "
               "host memory, from which a device copies weights as passes read them"),
    OPTION("tune", "FILE", TEXT, RUN(where.tune),
           .help =
               "choose kernels by times measured on this machine, in this file; if there is none, "
               "measure them before the run and write it, which takes at most a minute"),
    OPTION("dtype", "TYPE", TEXT_IS("f32"), RUN(task.dtype), .choices = "f32,f64,bf16",
           .help = "type of numbers; bf16: mixed precision, with activations and operands of "
                   "products in bf16, weights and sums in f32"),
    OPTION("weights", "TYPE", TEXT_IS("f32"), RUN(task.weights), .choices = "f32,bf16",
           .help = "numbers of weights and optimizer state: f32 (f64 with --dtype f64), or with "
                   "--dtype bf16 also bf16, without f32 masters, which updates round at random "
                   "without bias"),
    OPTION("threads", "N", WHOLE("0", 0, 1024), RUN(where.threads), .letter = 't',
           .help = "threads per rank; 0: OMP_NUM_THREADS, or the cores of the machine (in a job of "
                   "Slurm, those that it has allocated) divided by its ranks"),

    OPTION(
        "ranks", "RANKS", WHOLE("1", 0, WEFT_MAX_RANKS), RUN(job.ranks), .letter = 'n',
        .group = "Parallelism (see docs/guide/strategies.md)",
        .help =
            "number of ranks: learners times ranks of the mesh; under mpirun or srun the number of "
            "started processes"),
    OPTION(
        "engine", "NAME", TEXT_IS("threads"), RUN(job.engine), .names = WEFT_KIND_ENGINE,
        .help =
            "threads and mpi: each rank is a thread of this process, or an MPI process; processes "
            "(for exchanges with elastic learners): each learner and server is a process that is "
            "restarted when it dies"),
    OPTION("mesh", "AXIS=N,...", TEXT, RUN(parallel.mesh),
           .help = "mesh of a learner: data (batch), domain (height of images, positions of "
                   "sequences), tensor (weights), pipeline (layers); default: all ranks on data"),
    OPTION("shares", "N,...", TEXT, RUN(parallel.shares),
           .help = "shares of the ranks of the data axis in each batch, such as 3,1 for unlike "
                   "devices; measured: by their speeds"),
    OPTION("sum-dtype", "TYPE", TEXT_IS("f32"), RUN(parallel.sum_dtype), .choices = "f32,bf16",
           .help =
               "numbers in which gradients cross ranks: f32 (f64 with --dtype f64), or bf16, half "
               "the bytes; each rank's own sum is not rounded"),
    OPTION("zero", "STAGE", WHOLE("0", 0, 3), RUN(parallel.zero),
           .help =
               "ZeRO stage: shards over the data axis 1 optimizer state, 2 also gradients, 3 also "
               "parameters"),
    OPTION(
        "virtual-workers", "V", WHOLE("0", 0, 65536), RUN(length.virtual_workers),
        .help =
            "compute the batch as V workers, so that a data axis of 1, 2 .. V ranks gives the same "
            "bits"),
    OPTION("schedule", "NAME", TEXT_IS("1f1b"), RUN(parallel.schedule), .names = WEFT_KIND_SCHEDULE,
           .help = "pipeline schedule of micro-batches"),
    OPTION("profile", NULL, FLAG, RUN(parallel.profile),
           .help = "balance pipeline stages by measured instead of estimated times"),
    OPTION("no-bind", NULL, FLAG, RUN(where.no_bind),
           .help = "do not bind each rank to its own set of cores"),
    OPTION(
        "recompute", NULL, FLAG, RUN(parallel.recompute),
        .help =
            "activation checkpointing: discard most activations after forward and recompute them "
            "in backward"),
    OPTION("shard", "LEAF:DIM=AXIS,...", TEXT, RUN(parallel.shard),
           .help = "shard a parameter by hand: 'fc1/weight:out=tensor'"),
    OPTION("place", "PATTERN=DEVICE,...", TEXT, RUN(parallel.place),
           .help = "run operators with matching names on a device, which may have options "
                   "(cuda:0:libraries=none), or, with rank:K or cpu:K, on rank K and its cores "
                   "(device placement), instead of a mesh"),
    OPTION("exchange", "SPEC", TEXT, RUN(parallel.exchange), .forms = WEFT_KIND_EXCHANGE,
           .help = "exchange between learners: "),
    OPTION("servers", "K", WHOLE("0", 0, 1024), RUN(parallel.servers), .with = "exchange",
           .help = "exchanges with servers: number of servers that share the parameters (0: one)"),
    OPTION("replicas", "R", WHOLE("0", 0, 1), RUN(parallel.replicas), .with = "exchange",
           .help =
               "exchanges with servers: 1 stores each range on two servers, so one may be lost"),
    OPTION("compress", "SPEC", TEXT, RUN(parallel.compress), .forms = WEFT_KIND_CODEC,
           .with = "exchange", .help = "codec of updates between learners: "),
    OPTION("compress-downlink", "SPEC", TEXT, RUN(parallel.compress_downlink),
           .forms = WEFT_KIND_CODEC, .with = "exchange", .formerly = "compress-back",
           .help = "codec of parameters from servers to learners; default: as --compress: "),
    OPTION("hosts", "NAME:N,...", TEXT, RUN(job.hosts),
           .help = "engine mpi: hosts and their ranks, as for mpirun"),
    OPTION("max-restarts", "R", WHOLE("0", 0, 1e6), RUN(job.max_restarts),
           .help = "restarts of the job from the newest checkpoint after a rank has died; engine "
                   "processes: restarts of single processes in total (0: 100)"),
    OPTION("timeout", "SECONDS", REAL("300", 0.1, 1e6), RUN(job.timeout),
           .help =
               "seconds without progress of a rank after which the job fails; engine processes: a "
               "member without a heartbeat for a third of it, or 10 seconds, is removed"),
    OPTION("check-collectives", NULL, FLAG, RUN(job.check_collectives),
           .help = "before each collective compare the operation and its size on all ranks"),

    OPTION("checkpoint", "DIR", TEXT, RUN(output.checkpoint), .letter = 'c', .group = "Output",
           .help = "write DIR/step-N after each epoch and at the end"),
    OPTION("checkpoint-every", "STEPS", WHOLE("0", 0, 1e9), RUN(output.checkpoint_every),
           .with = "checkpoint", .help = "also write a checkpoint every STEPS steps; 0: no"),
    OPTION("keep", "K", WHOLE("3", 1, 1e6), RUN(output.keep), .with = "checkpoint",
           .help = "number of checkpoints to keep"),
    OPTION("keep-best", "METRIC", TEXT, RUN(output.keep_best), .names = WEFT_KIND_METRIC,
           .help = "also keep the checkpoint that is best by a metric of --validation, such as "
                   "loss or accuracy, as DIR/best"),
    OPTION(
        "resume", NULL, FLAG, RUN(output.resume), .letter = 'r', .with = "checkpoint",
        .help =
            "resume from DIR/latest, to the same bits as an uninterrupted run where learners step "
            "together (residuals of learners that are processes, other than the first, begin "
            "anew); without a checkpoint there, start a new run and log that"),
    OPTION("without", "NAME,...", TEXT, RUN(weights.without), .with = "resume",
           .help = "resume without these options of the checkpoint, as with their defaults; all "
                   "others that are not given are those of the checkpoint"),
    OPTION("drop-state", NULL, FLAG, RUN(output.drop_state), .with = "resume",
           .help = "resume with the parameters and the step of the checkpoint even if other state "
                   "(residuals, moments) does not fit this run: that state is dropped and named"),
    OPTION(
        "metrics", "FILE", TEXT, RUN(output.metrics),
        .help =
            "write a line of JSON per step and evaluation; - is standard output; "
            "tensorboard:FOLDER writes event files of TensorBoard, tensorboard+histograms:FOLDER "
            "also distributions of the parameters, tensorboard+confusion:FOLDER pictures of the "
            "confusion matrix, tensorboard+pictures:FOLDER these and some samples; "
            "trackio:FOLDER/RUN a database of Trackio; several with commas "
            "between them"),
    OPTION("trace", "FILE", TEXT, RUN(output.trace),
           .help = "write the first 100 steps, instruction by instruction, as Chrome trace events, "
                   "and print where their time went"),
    OPTION("estimate", "FILE", TEXT, RUN(show.estimate),
           .help =
               "compare the first hundred steps with the estimate for the cluster of a file (weft "
               "plan), and say where they differ"),
    OPTION("quiet", NULL, FLAG, RUN(show.quiet), .letter = 'q', .help = "print errors only"),
    OPTION(
        "progress", "HOW", TEXT_IS("auto"), RUN(show.progress), .choices = "auto,bar,lines",
        .help =
            "progress bar on a terminal, or lines; auto: a bar if standard output is a terminal"),
    {.name = NULL},
};
