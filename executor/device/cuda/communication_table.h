// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/copy_team.h"
#include "executor/device/plugin/table_of.h"

namespace planloom::cuda {

inline Team &of(PlanloomTeam *handle) { return *reinterpret_cast<Team *>(handle); }

/// 0, or -1 with the error in @p why; exceptions are errors, too.
template <class F>
std::int32_t done(PlanloomError *why, F call) noexcept
{
    try {
        const auto result = call();
        if (result)
            return 0;
        device::setError(*why, result.error());
    } catch (const std::exception &error) {
        device::setError(*why, failed(error.what()));
    }
    return -1;
}
/// The same of a Result<bool>: 1 or 0.
template <class F>
std::int32_t answered(PlanloomError *why, F call) noexcept
{
    bool answer = false;
    const auto ask = [&] {
        const Result<bool> said = call();
        answer = said && *said;
        return said;
    };
    return done(why, ask) < 0 ? -1 : static_cast<std::int32_t>(answer);
}

/// The table of a provider's communication. kProvider: Result<const CommunicationApi *>(), asked when devices are
/// to communicate; its error says why they cannot.
template <Result<const CommunicationApi *> (*kProvider)()>
PlanloomCommunicationTable communicationTableOf()
{
    PlanloomCommunicationTable t{};
    t.abi = PLANLOOM_COMMUNICATION_ABI;
    t.bytes = sizeof t;
    t.version = [](PlanloomError *why) {
        int version = 0;
        const auto ask = [&]() -> Status {
            const auto api = kProvider();
            if (!api)
                return api.error();
            (*api)->getVersion(&version);
            if (version < kOldestCommunicationVersion)
                return unsupported("NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100)
                                   + "." + std::to_string(version % 100) + " is older than 2.22; install a newer one");
            return {};
        };
        return done(why, ask) < 0 ? std::int32_t{-1} : std::int32_t{version};
    };
    t.identify = [](PlanloomDevice *device, char *identity, PlanloomError *why) {
        return answered(why, [&] { return static_cast<CudaDevice &>(device::table::of(device)).identify(identity); });
    };
    t.prepare = [](PlanloomDevice *device, PlanloomError *why) {
        return done(why, [&]() -> Status {
            const auto api = kProvider();
            if (!api)
                return api.error();
            static_cast<CudaDevice &>(device::table::of(device)).communicates(**api);
            return {};
        });
    };
    t.makeId = [](std::int32_t shares, char *id, PlanloomError *why) {
        return done(why, [&]() -> Status {
            if (shares != 0)
                return CopyTeam::makeId({id, PLANLOOM_TEAM_ID_BYTES});
            const auto api = kProvider();
            if (!api)
                return api.error();
            TeamId made{};
            if (const int error = (*api)->getUniqueId(&made); error != kTeamSuccess)
                return failed(std::string("NCCL makes no id: ") + (*api)->errorText(error)
                              + " (its last error: " + (*api)->lastError(nullptr) + ")");
            std::copy_n(made.bytes, sizeof made.bytes, id);
            return {};
        });
    };
    t.join = [](PlanloomDevice *device, const PlanloomTeamOptions *how, PlanloomError *why) {
        return device::table::made<PlanloomTeam>(why, [&]() -> Result<std::unique_ptr<Team>> {
            auto &own = static_cast<CudaDevice &>(device::table::of(device));
            if (how->shares != 0)
                return CopyTeam::join(own, *how);
            const auto api = kProvider();
            if (!api)
                return api.error();
            return LibraryTeam::join(**api, own, *how);
        });
    };
    t.poll = [](PlanloomTeam *team, PlanloomError *why) { return answered(why, [&] { return of(team).poll(); }); };
    t.use = [](PlanloomTeam *team, void *data, int64_t bytes, PlanloomError *why) {
        return answered(why, [&] { return of(team).use(data, bytes); });
    };
    t.collective = [](PlanloomTeam *team, PlanloomQueue *queue, const PlanloomCollective *what, PlanloomError *why) {
        return done(why,
                    [&] { return of(team).collective(static_cast<CudaQueue &>(device::table::of(queue)), *what); });
    };
    t.messages = [](PlanloomTeam *team, PlanloomQueue *queue, const PlanloomMessage *messages, int64_t count,
                    PlanloomError *why) {
        return done(why, [&] {
            return of(team).messages(static_cast<CudaQueue &>(device::table::of(queue)),
                                     {messages, static_cast<std::size_t>(count)});
        });
    };
    t.leave = [](PlanloomTeam *team, PlanloomError *why) { return done(why, [&] { return of(team).leave(); }); };
    t.abort = [](PlanloomTeam *const *teams, int64_t count) {
        Team::abortAll({reinterpret_cast<Team *const *>(teams), static_cast<std::size_t>(count)});
    };
    t.close = [](PlanloomTeam *team) { delete &of(team); };
    return t;
}

} // namespace planloom::cuda
