// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/sleeping_threads.h"

#include <unistd.h>

#include <cstdlib>

namespace planloom::runtime {

void restartWithSleepingThreads(char *const *argv)
{
    if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
        return;
    ::setenv("OMP_WAIT_POLICY", "passive", 0); // set now, so that it is not done twice
    ::execv("/proc/self/exe", argv);
}

} // namespace planloom::runtime
