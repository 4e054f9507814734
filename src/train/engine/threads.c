/* The engine threads: ranks are threads of the process that trains. */
#include "train/engine/engine.h"

const weft_train_engine weft_train_engine_threads = {
    .name = "threads", .alone = "self", .hosted = true};
