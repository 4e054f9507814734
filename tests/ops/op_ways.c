/* Runs operator cases with a candidate of choice: the device's list of candidates is wrapped, and
 * the wanted one costs nothing. */
#include "op_ways.h"

static const weft_device_ops *its_ops;
static weft_device_ops insisting;
static int wanted, most;

static int insist(weft_device *device, const weft_group *group, const weft_layout *const *in,
                  weft_candidate out[WEFT_CANDIDATES])
{
    int count = its_ops->candidates(device, group, in, out);
    most = WEFT_MAX(most, count);
    if (count > 1 && wanted >= 0) out[wanted % count].seconds = 0;
    return count;
}

void op_run_open(op_run *run, const op_case *c, weft_dtype real, const char *device, int way,
                 bool forward)
{
    memset(run, 0, sizeof(*run));
    run->device = device;
    run->way = way;
    fixture_start(&run->f, c, real);
    run->count = fixture_fetch(&run->f, run->fetch);
    if (forward) run->count = run->f.output_count;
    assert_ok(weft_store_create(run->f.context, device, 1, &run->store));
    its_ops = run->store->schema->devices[0]->ops;
    insisting = *its_ops;
    insisting.candidates = insist;
    wanted = way;
    most = 0;
    run->store->schema->devices[0]->ops = &insisting;
    assert_ok(
        weft_instance_build(run->store, run->f.graph, run->fetch, run->count, &run->instance));
    run->store->schema->devices[0]->ops = its_ops;
    run->ways = most;
    for (int i = 0; i < run->count; i++) {
        weft_type type = weft_graph_value_type(run->f.graph, run->fetch[i]);
        run->total += run->sizes[i] = weft_shape_elements(&type.shape);
    }
}

void op_run_close(op_run *run)
{
    weft_instance_destroy(&run->instance);
    weft_store_destroy(&run->store);
    fixture_end(&run->f);
}

void op_run_go(op_run *run, double *results)
{
    int64_t at = 0;
    fixture_feed(&run->f, run->instance);
    assert_ok(weft_instance_run(run->instance, WEFT_PHASE_MICRO));
    for (int i = 0; i < run->count; i++)
        for (int64_t j = 0; j < run->sizes[i]; j++)
            results[at++] = fixture_get(&run->f, run->instance, run->fetch[i], j);
}
