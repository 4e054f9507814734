/* Kernels of models that are served, chosen by a file of measurements (weft serve --tune). */
#include "program/program.h"
#include "train/mesh_program.h"
#include "train/trainer.h"

/* One rank measures: the ranks of a mesh make their programs at the same time. */
weft_status weft_mesh_weights_tune(weft_mesh_weights *w, const char *file, double until)
{
    weft_bytes text = {0};
    bool there = weft_file_exists(file);
    weft_status status = there ? weft_tuning_read_file(file, &text) : WEFT_OK;
    char *own = NULL;
    w->tuned_by = file;
    for (int r = 0; r < w->ranks && status == WEFT_OK; r++) {
        status = weft_store_tune(w->stores[r], there ? &text : NULL, file);
        if (status == WEFT_OK && there) status = weft_store_tuning_fits(w->stores[r]);
        if (status == WEFT_OK && there) status = weft_store_tuning_named(w->stores[r]);
    }
    free((void *)(uintptr_t)text.data);
    WEFT_TRY(status);
    WEFT_TRY(weft_store_tuning_text(w->stores[0], &own, &w->measured));
    free(own);
    weft_store_measure_until(w->stores[0], until, NULL, NULL);
    return WEFT_OK;
}

weft_status weft_mesh_weights_keep_tuning(const weft_mesh_weights *w, bool *grown)
{
    char *text;
    size_t count;
    weft_context *context = w->stores[0]->schema->context;
    int lacking = weft_store_untuned(w->stores[0]);
    WEFT_TRY(weft_store_tuning_text(w->stores[0], &text, &count));
    *grown = count > w->measured;
    weft_status status = WEFT_OK;
    if (*grown) {
        status = weft_file_replace(w->tuned_by, WEFT_OUTPUT_REPLACE, text, strlen(text));
        weft_log(context, WEFT_LOG_NOTE, "tuning: %zu new measurements; %s has them",
                 count - w->measured, w->tuned_by);
    } else if (lacking > 0) {
        weft_log(context, WEFT_LOG_NOTE,
                 "tuning: %s lacks %d group%s of kernels of this model, which the rule chooses",
                 w->tuned_by, lacking, weft_plural(lacking));
    }
    free(text);
    return status;
}
