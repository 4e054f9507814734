/* weft plan: prints what each rank of a run would hold, compute and send, without running it. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "plan.h"
#include "plan_timeline.h"
#include "plan_target.h"

/* The reason why the options of --auto do not go with the others; NULL: they do. */
static const char *search_contradiction(const plan_options *p)
{
    enum { USUAL_TOP = 10 };
    if (p->searches && (p->strategies || p->why || p->verify))
        return "--strategies, --why and --verify are about given strategies, and --auto finds "
               "them; "
               "leave one of them out";
    if (p->searches && (p->dump >= 0 || p->passes >= 0))
        return "--dump and --passes are of one run, and --auto is about several; leave one of them "
               "out";
    if (p->searches && !p->cluster)
        return "--auto compares estimates, which need --cluster FILE; weft measure writes one";
    if (!p->searches && (p->top || p->exhaustive || p->one_learner))
        return "--top, --one-learner and --exhaustive are about --auto, which is not given";
    if (p->output && !p->searches && !target_asked(&p->target))
        return "--output writes what --auto, --target or --budget finds, and none is given";
    if (p->pick > (p->top ? p->top : USUAL_TOP) + 1)
        return "--pick is beyond the rows of --auto, which are --top N and perhaps that of one "
               "learner; give a greater --top";
    if (p->pick && (!p->output || target_asked(&p->target)))
        return "--pick is the row of --auto that --output writes; give --output FILE too, and no "
               "--target";
    return NULL;
}

/* Whether the step of one run is shown, and not the rates of several. */
static bool shows_step(const plan_options *p)
{
    bool curves = p->scale || target_asked(&p->target);
    return (p->plot && !curves) || p->timeline || p->trace || p->measured;
}

/* The reason why the own options do not go together; NULL: they do. */
static const char *contradiction(const plan_options *p)
{
    bool adds = p->dump >= 0 || p->cluster;
    bool trains = target_asked(&p->target);
    bool lists = p->strategies && !p->verify && !trains;
    int tables = lists + (p->why != NULL) + p->verify + trains;
    if (p->passes >= 0 && adds)
        return "--dump and --cluster add to the plan, and --passes prints graphs in its place; "
               "leave one of them out";
    if (tables > 1)
        return "--strategies, --why, --verify, and --target or --budget print tables; leave one of "
               "them out";
    if (tables > 0 && (p->dump >= 0 || p->passes >= 0))
        return "--dump and --passes are of one run, and --strategies, --why, --verify, --target "
               "and --budget print times of several; leave one of them out";
    if (trains && !p->cluster)
        return "--target and --budget are of runs in virtual time, which need --cluster FILE; weft "
               "measure writes one";
    if (!trains && target_details(&p->target))
        return "--seeds, --lr-rule and --sweep are of runs in virtual time; give --target "
               "NAME=VALUE or --budget TIME";
    if (tables > 0 && !p->verify && !p->cluster)
        return "--strategies and --why compare estimates, which need --cluster FILE; weft measure "
               "writes one";
    if (p->scale && (!p->strategies || p->verify))
        return "--scale is of --strategies alone, as in --strategies 'mesh=data=N; "
               "exchange=average:every=4'";
    if (shows_step(p) && tables > 0)
        return "--plot, --timeline, --predicted and --measured show the step of one run, and "
               "--strategies, --why and --verify print tables; leave one of them out, or draw "
               "--scale";
    if (shows_step(p) && !p->cluster)
        return "--plot, --timeline and --predicted show the step on a cluster; give --cluster "
               "FILE, "
               "which weft measure writes";
    if (p->measured && !p->plot && !p->timeline)
        return "--measured is shown by --plot or --timeline; give one of them";
    if (p->memory && (p->passes >= 0 || tables > 0 || p->searches))
        return "--memory is about the plan of one run, in whose place --passes, --auto and tables "
               "are printed; leave one of them out";
    if (p->memory && p->cluster)
        return "the machines of --cluster have their memory in its file (key memory); leave "
               "--memory out";
    if (p->quick && !p->verify) return "--quick is about --verify, which is not given";
    if (p->json && tables == 0 && !p->searches)
        return "--json prints the table of --strategies, --auto, --why, --verify, --target or "
               "--budget, and none is given";
    return search_contradiction(p);
}

static weft_status print_passes(weft_context *context, const weft_train_options *options,
                                const plan_options *plan)
{
    char *text = NULL;
    weft_status status = weft_train_passes_text(context, options, (int)plan->passes, &text);
    if (status == WEFT_OK) print_with_tables(text, "rank  ");
    weft_free(text);
    return status;
}

/* Prints the plan, and the estimate, if there is a cluster; shown: *step has it. *lack: as
 * plan_memory says. */
static weft_status print_plan(weft_context *context, const weft_train_options *options,
                              const plan_options *plan, bool shown, weft_step_estimate *step,
                              double *lack)
{
    char *text = NULL;
    weft_memory_estimate memory = {0};
    weft_status status = weft_estimate_plan(context, options, (int)plan->dump, plan->cluster, &text,
                                            &memory, plan->cluster && !shown ? step : NULL);
    if (status == WEFT_OK) {
        print_with_tables(text, "rank  ");
        *lack = plan_memory(context, options, plan->cluster, plan->memory_bytes, &memory);
        if (plan->cluster) print_estimate(plan->cluster, step);
    }
    weft_memory_estimate_free(&memory);
    weft_free(text);
    return status;
}

static int plan_one(weft_context *context, const weft_train_options *options,
                    const plan_options *plan)
{
    weft_step_estimate step;
    plan_steps steps = {.count = 0};
    const plan_timeline_options show = {.plot = plan->plot,
                                        .trace = plan->trace,
                                        .measured = plan->measured,
                                        .timeline = plan->timeline};
    int code = 0;
    double lack = 0;
    bool shown = plan->cluster && shows_step(plan);
    if (plan->passes >= 0) return report_failure(print_passes(context, options, plan));
    if (shown) code = plan_steps_make(context, options, plan->cluster, &show, &step, &steps);
    if (code == 0) code = report_failure(print_plan(context, options, plan, shown, &step, &lack));
    if (code == 0 && plan->timeline) step_bars_print(&steps.predicted);
    if (code == 0 && plan->timeline && steps.count > 1) step_bars_print(&steps.measured);
    plan_steps_free(&steps);
    flush_stdout();
    if (code == 0 && lack > 0) {
        fprintf(stderr, "weft: the run takes %.4g MB more than the memory of %s\n", lack / 1e6,
                plan->cluster ? plan->cluster : "the machine");
        code = 1;
    }
    return code;
}

static int scale(weft_context *context, const plan_options *plan, const weft_train_options *options,
                 int argc, char **argv)
{
    char subject[160];
    const plan_scale_options o = {.cluster = plan->cluster,
                                  .strategies = plan->strategies,
                                  .sizes = plan->scale,
                                  .plot = plan->plot,
                                  .subject = subject,
                                  .json = plan->json};
    if (!suffix_fits("plan", "plot", plan->plot ? plan->plot : "", OTHER_PICTURES, "an SVG picture",
                     ".svg"))
        return 2;
    if (weft_train_refuse_overwrite(options, "plot", plan->plot) != WEFT_OK)
        return usage_failure("plan");
    (void)snprintf(subject, sizeof(subject), "%s on %s", options->task.model, options->task.data);
    return plan_scale(context, &o, argc, argv);
}

/* Trains the runs of --strategies, or those that --auto finds, until one reaches the target. */
static int train_finalists(weft_context *context, const plan_options *plan,
                           const weft_train_options *options, int argc, char **argv)
{
    char *winner = NULL, *list = NULL, figures[160];
    target_choice target = plan->target;
    target.plot = plan->plot;
    int code = 0;
    if (plan->searches) code = plan_finalists(context, plan, options, &list);
    if (code == 0 && (list || !plan->searches))
        code = plan_target(context, &target, plan->cluster, list ? list : plan->strategies,
                           plan->json, argc, argv, &winner);
    (void)snprintf(figures, sizeof(figures), "the first run to reach %.100s",
                   target.target ? target.target : "the smallest loss");
    if (code == 0 && winner && plan->output)
        code = save_found(context, plan, options, winner, figures);
    free(winner);
    free(list);
    return code;
}

static int run_with(weft_context *context, plan_options *plan, int argc, char **argv)
{
    weft_train_options options = {0};
    weft_status status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK && plan->searches) status = find_given(context, argc, argv, plan);
    if (status != WEFT_OK) {
        weft_options_free(weft_train_table(context), &options);
        return usage_failure("plan");
    }
    print_log(context, options.show.quiet);
    int code = load_plugins(context, weft_train_table(context), &options);
    if (code == 0) (void)plan_outputs_fit(plan, &code);
    if (code == 0 && target_asked(&plan->target))
        code = train_finalists(context, plan, &options, argc, argv);
    else if (code == 0 && plan->verify)
        code = plan_verify(context, plan->cluster, plan->strategies, plan->quick, plan->json, argc,
                           argv);
    else if (code == 0 && plan->why)
        code = plan_why(context, plan->cluster, plan->why, plan->json, argc, argv);
    else if (code == 0 && plan->scale)
        code = scale(context, plan, &options, argc, argv);
    else if (code == 0 && plan->strategies)
        code = plan_strategies(context, plan, argc, argv);
    else if (code == 0 && plan->searches)
        code = plan_search(context, plan, &options);
    else if (code == 0)
        code = plan_one(context, &options, plan);
    if (code == 0 && !plan->verify) note_processor(plan->cluster, options.show.quiet);
    weft_options_free(weft_train_table(context), &options);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    plan_options plan = {.dump = -1, .passes = -1};
    map_arrays();
    weft_status status = take_own_options(plan_table, &plan, &argc, argv);
    int code = 2;
    if (status != WEFT_OK)
        code = usage_failure("plan");
    else if (contradiction(&plan))
        fprintf(stderr, "weft: %s\nTry 'weft help plan'.\n", contradiction(&plan));
    else if (!plan.memory || plan_memory_size(plan.memory, &plan.memory_bytes) == WEFT_OK)
        code = run_with(context, &plan, argc, argv);
    weft_options_free(plan_table, &plan);
    free(plan.given);
    return code;
}

const command command_plan = {
    .name = "plan",
    .usage = "[RUN.yaml] [--dump[=RANK] | --passes[=RANK]] [--cluster FILE] [--auto | --verify]\n"
             "                 [options of weft train]",
    .summary = "show what each rank of a run would hold, compute and send",
    .text =
        "Takes the options of weft train and runs nothing: prints for each rank its position in\n"
        "the mesh, the bytes of weights, optimizer state, gradients and activations, the\n"
        "floating point operations and the bytes sent to ranks of its learner per step; then\n"
        "every transfer in order, the bubble of a pipeline, and the memory of each rank and\n"
        "process at its peak, with evaluation, exchange and checkpoint. --memory says whether\n"
        "that fits, and if not, what options would take less, by planning them; the exit code is\n"
        "then 1. --dump adds the graph and the program of rank 0, --dump=K those of rank K.\n"
        "--passes prints in place of all this the graph after each pass: the model, its\n"
        "gradients, the optimizer, recomputation, the part of rank 0 (--passes=K: of rank K), and\n"
        "the graphs that predict.\n\n"
        "--cluster FILE adds the time of a step on the machines of that file, which weft measure\n"
        "writes: the programs of all ranks are played with measured times in the place of\n"
        "numbers, over links that carry one message at a time. --strategies prints a table of\n"
        "several runs. Where learners do not wait for each other (server, gossip and others), the\n"
        "actors of the exchange are played, too: each server runs on the machine of the learner\n"
        "whose process has it, links are shared, and messages and updates take the time of all\n"
        "parameters. The staleness of updates and the share for which the busiest server works "
        "are\n"
        "then printed. --why tells where the difference\n"
        "between the steps of two runs comes from: kernels, work on transfers, waits for links "
        "and\n"
        "for other ranks, and the layers in which they differ most.\n\n"
        "--auto searches for the fastest: all meshes with up to a rank for each core, schedules,\n"
        "micro-batches, ZeRO stages and recomputation, exchanges, codecs and servers. What the\n"
        "options already give (-n 4, --zero 1) stays. Each learner takes --batch samples a step,\n"
        "and the rows are ranked by the samples that all learners take in a second; that says\n"
        "nothing of how many samples a loss needs. Each row is the fastest of those that update\n"
        "parameters in the same way: by the same exchange and codec, or as one learner. A\n"
        "candidate is left out only if a bound says that it cannot be faster. --output FILE\n"
        "writes the best row, or --pick N, as a run file. The exit code is 1 if nothing fits.\n\n"
        "--verify makes the run, or those of --strategies, on this machine for some seconds each,\n"
        "and prints their steps, memory and bytes beside the estimates; ~ marks an expectation.\n\n"
        "--plot draws the step by ranks and links, --timeline prints it, and --predicted writes it "
        "for\n"
        "Perfetto; --measured FILE shows a step of a trace of weft train beside it. --scale "
        "prints\n"
        "the steps of --strategies on more and more machines, and --plot then draws their "
        "rates.\n\n"
        "--target accuracy=0.97 trains the runs of --strategies (or the one run) in virtual time,\n"
        "on the data of the options and from one beginning, and prints which reaches the target\n"
        "first. Successive halving keeps that cheap: all runs go on to a virtual time, the half\n"
        "that is better there, by an evaluation of what each would give, to twice that time, and\n"
        "so on until one is left or has reached the target. Evaluations are those of weft train\n"
        "(--evaluate-every). The exit code is 1 if no run reaches it. --budget 2h compares the\n"
        "losses of evaluations at that time.",
    .examples =
        "  weft plan -n 4 --mesh data=2,tensor=2\n"
        "  weft plan -n 2 --model vgg11 --mesh pipeline=2 --microbatches 10\n"
        "  weft plan -n 8 --zero 3 --dump=1\n"
        "  weft plan --model vgg11 --memory 2GB\n"
        "  weft plan -n 2 --mesh tensor=2 --passes\n"
        "  weft measure -o here.yaml\n"
        "  weft plan --cluster here.yaml -n 2 --strategies 'mesh=data=2; mesh=tensor=2'\n"
        "  weft plan --cluster here.yaml --auto --one-learner --model lenet\n"
        "  weft plan --cluster here.yaml -n 2 --why 'mesh=data=2; mesh=tensor=2'\n"
        "  weft plan --cluster here.yaml -n 2 --mesh data=2 --timeline --plot step.svg\n"
        "  weft plan --cluster examples/clusters/thirty-two.yaml --scale 1..32 --plot scale.svg "
        "\\\n"
        "      --strategies 'mesh=data=N; exchange=average:every=4'\n"
        "  weft plan --cluster here.yaml -n 2 --target accuracy=0.95 --evaluate-every 50 \\\n"
        "      --strategies 'mesh=data=2; exchange=server:policy=async'\n"
        "  weft plan --verify --quick -n 2 --strategies 'mesh=data=2; mesh=tensor=2'\n",
    .table = weft_train_table,
    .own = plan_table,
    .run = run,
};
