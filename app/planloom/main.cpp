// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/cli.h"

int main(int argc, char **argv) { return planloom::cli::run(argc, argv); }
