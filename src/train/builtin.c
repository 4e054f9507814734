/* Creates a context and registers all built-in plug-ins and option tables in it. Each room (folder
 * of src/) has a function that registers its own. */
#include "base/registry.h"
#include "compress/compress.h"
#include "data/data.h"
#include "device/device.h"
#include "models/models.h"
#include "ops/ops.h"
#include "optim/optim.h"
#include "rewrite/rewrite.h"
#include "train/train.h"
#include "weft/services.h"

static weft_status (*const rooms[])(weft_context *context) = {
    weft_engines_register,    weft_operators_register, weft_devices_register,
    weft_optimizers_register, weft_sources_register,   weft_models_register,
    weft_exchanges_register,  weft_schedules_register, weft_codecs_register,
    weft_metrics_register,
};

weft_status weft_context_create(weft_context **out)
{
    WEFT_NEED(out);
    weft_context *context;
    WEFT_TRY(weft_context_new(weft_services_get(), &context));
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(rooms) && status == WEFT_OK; i++) status = rooms[i](context);
    if (status == WEFT_OK) status = weft_context_add_table(context, weft_train_rows);
    if (status == WEFT_OK) status = weft_simulate_tables_register(context);
    if (status == WEFT_OK) status = weft_measure_tables_register(context);
    if (status == WEFT_OK)
        *out = context;
    else
        weft_context_destroy(&context);
    return status;
}
