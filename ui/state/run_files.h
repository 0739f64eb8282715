// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "ui/state/run_data.h"

namespace planloom::ui {

/// What a run left in @p folder (resources/docs/formats/run.md), without its plan and trace: steps, settings, summary.
/// Files that are missing leave their part empty. Error: a file that cannot be read. Any thread.
Result<RunData> readRunFiles(const QString &folder);

/// Where @p trace is one of the two of a run that changed its course (trace.pltrace, trace.measured.pltrace), the other
/// one, if it is there; else empty.
QString otherCourse(const QString &trace);

/// True if the run in @p folder has written a checkpoint, from which it can be resumed.
bool hasCheckpoints(const QString &folder);

} // namespace planloom::ui
