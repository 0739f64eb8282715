// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QThreadPool>

#include <memory>
#include <utility>

namespace planloom::ui {

/// A shared value that is destroyed on a thread of the pool, whichever thread lets go of it last: to free a trace of
/// tens of thousands of ranks takes longer than an event of the UI thread may.
template <class Value>
std::shared_ptr<Value> freedElsewhere(Value value)
{
    return {new Value(std::move(value)),
            [](const Value *last) { QThreadPool::globalInstance()->start([last] { delete last; }); }};
}

} // namespace planloom::ui
