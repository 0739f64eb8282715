// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::cli {

/// The whole command: reads the arguments, runs the verb, prints the error if there is one. Exit status: 0 done, 1
/// failed while running, 2 the input or the options are wrong.
int run(int argc, char **argv);

} // namespace planloom::cli
