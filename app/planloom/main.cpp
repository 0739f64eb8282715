// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/cli.h"
#include "executor/runtime/sleeping_threads.h"

#include <string_view>

int main(int argc, char **argv)
{
    // The verbs that run kernels in this process.
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (verb == "worker" || verb == "profile" || verb == "bench")
        planloom::runtime::restartWithSleepingThreads(argv);
    return planloom::cli::run(argc, argv);
}
