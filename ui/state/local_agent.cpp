// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/local_agent.h"

namespace planloom::ui {

ClientFactory localAgent()
{
    return [] { return agent::Client::startLocal(); };
}

} // namespace planloom::ui
