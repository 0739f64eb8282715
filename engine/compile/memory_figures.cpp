// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/memory_figures.h"

#include "engine/compile/compile.h"
#include "engine/compile/deployment.h"
#include "engine/compile/stage_memory.h"
#include "engine/plan/replica_machines.h"
#include "engine/plan/validate.h"

namespace planloom::compile {

Result<MemoryFigures> memoryFigures(const plan::Plan &plan, const plan::Subject &subject, const memory::RunTimes *times)
{
    const Source source{plan, subject};
    if (const Status valid = plan::validate(plan, subject); !valid)
        return valid.error();
    if (const auto summed = plan::onOneMachine(plan, *subject.cluster))
        return memoryFigures(*summed, subject, times);
    const Samples samples(source);
    const auto made = deploy(source, samples, {.bodies = false}, false, false);
    if (!made)
        return made.error();
    const auto memory = planMemory({source, samples, made->stages, made->ranks, made->instances, made->teams,
                                    made->buckets, made->owners, made->parts, times});
    if (!memory)
        return memory.error();
    MemoryFigures figures;
    for (std::size_t instance = 0; instance < made->instances.size(); ++instance)
        if (const StageMemory *of = memory->of(instance)) {
            figures.stallSeconds += of->course.stallSeconds;
            figures.fragmented += of->course.fragmented;
        }
    return figures;
}

} // namespace planloom::compile
