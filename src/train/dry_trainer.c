/* Creates a trainer that is only looked at: it has the graph and the program of the first rank. */
#include "train/trainer.h"

weft_status weft_trainer_create_dry(weft_context *context, const weft_train_options *options,
                                    weft_trainer **out)
{
    weft_trainer *t;
    WEFT_NEED(context, options, out);
    weft_train_options own = {0};
    weft_status status = weft_train_options_copy(context, options, &own);
    if (status == WEFT_OK) status = weft_options_check(weft_train_table(context), &own);
    if (status == WEFT_OK) status = weft_train_engine_look(context, &own);
    if (status == WEFT_OK) status = weft_trainer_prepare(context, &own, NULL, &t);
    weft_options_free(weft_train_table(context), &own);
    WEFT_TRY(status);
    weft_rank *first = &t->runs[0].rank;
    *first = (weft_rank){.run_spec = &t->run_spec};
    status = weft_rank_rewrite(first);
    if (status == WEFT_OK) status = weft_trainer_check_servers(t);
    if (status == WEFT_OK) status = weft_rank_dry_program(first, &t->dry);
    if (status == WEFT_OK)
        *out = t;
    else
        weft_trainer_destroy(&t);
    return status;
}
