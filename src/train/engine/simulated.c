/* The engine of weft_simulate, which no option names: ranks are actors of a simulator. */
#include "train/engine/engine.h"

const weft_train_engine weft_train_engine_simulated = {.name = "simulated", .simulated = true};
