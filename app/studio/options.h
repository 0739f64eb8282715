// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/outline/manual.h"
#include "app/studio/bench_mode.h"

#include <QString>
#include <QStringList>

#include <optional>

namespace planloom {

inline constexpr int kFewestSteps = 2; ///< of the demo's training

/// What the command line asks for.
struct StudioOptions {
    bool demo = false;
    bool bench = false;
    BenchRequest benchRequest;
    QString screenshot;
    QString play; ///< a script; empty: none
    QStringList files;
    int steps = 12;
    bool freshSession = false;
    QString theme;
};

/// Reads the arguments of the application that there is; `--help` and `--version` end the process. On an error
/// @p wrong says what.
std::optional<StudioOptions> parseStudioOptions(QString &wrong);

/// The options as --help shows them, for completion and the man page.
cli::Manual studioManual();

} // namespace planloom
