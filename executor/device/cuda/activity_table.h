// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/activity.h"
#include "executor/device/plugin/translate.h"

#include <exception>

namespace planloom::cuda {

inline Activity &of(PlanloomActivity *handle) { return *reinterpret_cast<Activity *>(handle); }

/// The table of the records that a provider has. kProvider: Result<const ActivityApi *>(), asked when records are
/// wanted; its error says why there are none.
template <Result<const ActivityApi *> (*kProvider)()>
PlanloomActivityTable activityTableOf()
{
    PlanloomActivityTable t{};
    t.abi = PLANLOOM_ACTIVITY_ABI;
    t.bytes = sizeof t;
    t.open = [](PlanloomError *why) -> PlanloomActivity * {
        try {
            const Status free = isFreeOfProfilers();
            const Result<const ActivityApi *> api = free ? kProvider() : free.error();
            auto opened = api ? Activity::open(**api, {}) : Result<std::unique_ptr<Activity>>(api.error());
            if (opened)
                return reinterpret_cast<PlanloomActivity *>(opened->release());
            device::setError(*why, opened.error());
        } catch (const std::exception &error) {
            device::setError(*why, failed(error.what()));
        }
        return nullptr;
    };
    t.close = [](PlanloomActivity *activity) { delete &of(activity); };
    t.start = [](PlanloomActivity *activity, int32_t what, PlanloomError *why) {
        const Status started = of(activity).start(static_cast<Activity::Level>(what));
        if (!started)
            device::setError(*why, started.error());
        return int32_t{started ? 0 : -1};
    };
    t.stop = [](PlanloomActivity *activity) { of(activity).stop(); };
    t.mark = [](PlanloomActivity *activity, uint64_t mark) { of(activity).mark(mark); };
    t.collect = [](PlanloomActivity *activity, int32_t last) { of(activity).collect(last != 0); };
    t.take = [](PlanloomActivity *activity, PlanloomActivityRecord *records, int64_t most) {
        return static_cast<int64_t>(of(activity).take({records, static_cast<std::size_t>(most)}));
    };
    t.counts = [](PlanloomActivity *activity, PlanloomActivityCounts *counts) { *counts = of(activity).counts(); };
    t.readings = [](PlanloomActivity *activity, int32_t device, PlanloomReadings *readings) {
        *readings = of(activity).readings(device);
    };
    return t;
}

} // namespace planloom::cuda
