// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/bench/event_watch.h"

#include <QString>
#include <QStringList>

#include <optional>

namespace planloom {

/// What follows `--bench` and its options.
struct BenchRequest {
    QStringList targets; ///< "T3,T9"; empty: all
    QString size;
    QString seconds; ///< of the live run
    bool json = false;
};

/// Measures, and prints a table or an object. What is wrong with @p request, or the exit status: 0 also where targets
/// are missed, as a slow machine is no failure.
std::optional<QString> benchInStudio(ui::WatchedApplication &app, const BenchRequest &request, int &status);

} // namespace planloom
