/* Gives a store the table of measurements of a checkpoint. */
#include "checkpoint/checkpoint.h"
#include "program/program.h"

weft_status weft_checkpoint_tune(const weft_checkpoint *c, weft_store *store)
{
    char *where;
    if (c->tuning.size == 0) return WEFT_OK;
    WEFT_TRY(weft_format(&where, "%s/" WEFT_TUNING_FILE, c->path));
    weft_status status = weft_store_tune(store, &c->tuning, where);
    free(where);
    WEFT_TRY(status);
    status = weft_store_tuning_fits(store);
    if (status != WEFT_ERR_ARGUMENT) return status;
    weft_log(store->schema->context, WEFT_LOG_NOTE, "kernels are chosen by the rule: %s",
             weft_last_message());
    weft_store_untune(store);
    return WEFT_OK;
}
