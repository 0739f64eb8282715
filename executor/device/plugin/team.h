// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/communication_abi.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/device/plugin/translate.h"

#include <memory>
#include <span>
#include <vector>

namespace planloom::device {

/// One device's end of a team behind the table of communication, whose functions say what each call does. Thread
/// contract: one thread.
class Team {
public:
    /// @p table and @p device must outlive it.
    static Result<std::unique_ptr<Team>> join(const PlanloomCommunicationTable &table, PluginDevice &device,
                                              const PlanloomTeamOptions &how)
    {
        PlanloomError why{};
        if (PlanloomTeam *team = table.join(device.handle(), &how, &why))
            return std::unique_ptr<Team>(new Team(table, device, team));
        return errorOf(why);
    }
    ~Team() { m_table.close(m_team); }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    Result<bool> poll()
    {
        PlanloomError why{};
        return answer(m_table.poll(m_team, &why), why);
    }
    Result<bool> use(void *data, std::int64_t bytes)
    {
        PlanloomError why{};
        return answer(m_table.use(m_team, data, bytes, &why), why);
    }
    Status collective(Queue &queue, const PlanloomCollective &what)
    {
        PlanloomError why{};
        return done(m_table.collective(m_team, m_device.handleOf(queue), &what, &why), why);
    }
    Status messages(Queue &queue, std::span<const PlanloomMessage> messages)
    {
        PlanloomError why{};
        return done(m_table.messages(m_team, m_device.handleOf(queue), messages.data(),
                                     static_cast<std::int64_t>(messages.size()), &why),
                    why);
    }
    Status leave()
    {
        PlanloomError why{};
        return done(m_table.leave(m_team, &why), why);
    }
    /// Of one table.
    static void abort(std::span<Team *const> teams)
    {
        std::vector<PlanloomTeam *> handles;
        for (const Team *team : teams)
            handles.push_back(team->m_team);
        if (!teams.empty())
            teams.front()->m_table.abort(handles.data(), static_cast<std::int64_t>(handles.size()));
    }

private:
    Team(const PlanloomCommunicationTable &table, PluginDevice &device, PlanloomTeam *team)
        : m_table(table),
          m_device(device),
          m_team(team)
    {
    }
    static Result<bool> answer(std::int32_t said, const PlanloomError &why)
    {
        return said < 0 ? Result<bool>(errorOf(why)) : Result<bool>(said > 0);
    }
    static Status done(std::int32_t said, const PlanloomError &why)
    {
        return said < 0 ? Status(errorOf(why)) : Status();
    }

    const PlanloomCommunicationTable &m_table;
    PluginDevice &m_device;
    PlanloomTeam *m_team;
};

} // namespace planloom::device
