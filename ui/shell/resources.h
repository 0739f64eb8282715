// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

namespace planloom::ui {

/// The folder @p name of resources (such as "docs"): PLANLOOM_RESOURCES, beside the installed program, or in the source
/// tree above a build folder. Empty if there is none.
QString resourceFolder(const QString &name);

} // namespace planloom::ui
