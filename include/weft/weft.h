/* Everything. Each header also stands alone. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/cluster.h"
#include "weft/comm.h"
#include "weft/context.h"
#include "weft/data.h"
#include "weft/device.h"
#include "weft/device_ops.h"
#include "weft/graph.h"
#include "weft/job.h"
#include "weft/keys.h"
#include "weft/members.h"
#include "weft/model.h"
#include "weft/optim.h"
#include "weft/options.h"
#include "weft/output.h"
#include "weft/plan.h"
#include "weft/plugin.h"
#include "weft/port.h"
#include "weft/program.h"
#include "weft/registry.h"
#include "weft/services.h"
#include "weft/report.h"
#include "weft/status.h"
#include "weft/simulate.h"
#include "weft/train.h"
#include "weft/train_options.h"
#include "weft/types.h"

#endif
