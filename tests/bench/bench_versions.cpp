// SPDX-License-Identifier: Apache-2.0
// The versions of a plan with a parameter server on the cost clock: bench_versions PLAN COUNT. Prints a line
// "version,workers,seconds" for each; without the last column it is what train --arrivals takes. Of another plan: the
// seconds of COUNT iterations.
#include "engine/compile/compile.h"
#include "engine/plan/plan_json.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/versions.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

using namespace planloom;

int main(int count, char **arguments)
{
    if (count != 3) {
        std::fprintf(stderr, "bench_versions PLAN COUNT\n");
        return 2;
    }
    const auto fail = [](const Error &error) {
        std::fprintf(stderr, "%s\n", error.text().c_str());
        return 2;
    };
    const auto document = plan::readPlan(arguments[1]);
    if (!document)
        return fail(document.error());
    const auto program = compile::compilePlan(document->plan, document->subject, {.bodies = false});
    if (!program)
        return fail(program.error());
    const int wanted = std::atoi(arguments[2]);
    std::printf("version,workers,seconds\n");
    if (!program->server) {
        const auto seconds = simulate::iterationSeconds(*program);
        if (!seconds)
            return fail(seconds.error());
        for (int step = 0; step < wanted; ++step)
            std::printf("%d,,%.9f\n", step, *seconds * (step + 1));
        return 0;
    }
    const auto times = simulate::versions(*program, wanted);
    if (!times)
        return fail(times.error());
    for (int version = 0; version < wanted; ++version) {
        const auto at = static_cast<std::size_t>(version);
        std::printf(
            "%s\n",
            fmt::format("{},{},{:.9f}", version, fmt::join(times->arrivals[at], " "), times->seconds[at]).c_str());
    }
    return 0;
}
