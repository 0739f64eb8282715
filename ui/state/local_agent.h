// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/state/run_session.h"

namespace planloom::ui {

/// Starts an agent of this machine as a child for each run (the `planloom` beside the studio).
ClientFactory localAgent();

} // namespace planloom::ui
