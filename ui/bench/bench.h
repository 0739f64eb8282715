// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "ui/bench/bench_window.h"

#include <QString>

#include <functional>
#include <vector>

namespace planloom::ui {

/// The numbers in "T3,T9", in order; all 13 of an empty text. Error: BadInput.
Result<std::vector<int>> benchTargets(const QString &text);

/// Measures @p options.targets, in order, in windows of its own; settings and files of the user are not touched. @p
/// progress: called with a line for each part. Cost: minutes, and gigabytes of memory and of temporary files at full
/// size. UI thread, outside of an event loop.
std::vector<BenchFigure> runBench(const BenchOptions &options, EventWatch &watch,
                                  const std::function<void(const QString &)> &progress);

/// What T12 starts: shows an empty window, and says on standard output when it has been painted. Exit status.
int showStart();

} // namespace planloom::ui
