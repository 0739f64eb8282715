// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "engine/base/log.h"
#include "profiler/transport.h"

namespace planloom::cli {

int transport(const TransportOptions &options)
{
    const Status measured = profiler::measureTransportAsRank(options.out, options.nodes);
    if (!measured)
        log(LogLevel::Error, measured.error().text());
    return measured ? 0 : 1;
}

} // namespace planloom::cli
