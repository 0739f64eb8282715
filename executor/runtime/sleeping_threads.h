// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::runtime {

/// Makes OpenMP's idle threads sleep instead of spin, unless the environment sets OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT. Spinning is measured to make a training step of gpt-nano 50 times slower (9 s against 0.18 s, 2
/// threads on 2 cores) as soon as anything else wants the cores. libgomp reads the environment while it is loaded, so
/// this restarts the running program in place, once, with the same arguments: call it first thing in main(). Where that
/// fails, the program goes on as it is.
void restartWithSleepingThreads(char *const *argv);

} // namespace planloom::runtime
