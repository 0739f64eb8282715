// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::remote {

/// The run's folder here, as a follower's messages (follow.h) fill it. Not thread-safe.
class Mirror {
public:
    /// @p folder is there. @p onEvent: each whole line of events.jsonl, also those that were here before; once, but for
    /// lines that are others when the file is sent again.
    Mirror(std::string folder, std::function<void(std::string_view)> onEvent);

    /// Bytes of each file that is here.
    [[nodiscard]] std::map<std::string, std::int64_t> have() const;
    /// What comes next is from another session: a message that has come in part is dropped.
    void newSession();
    /// Takes bytes as they come. Errors: Failed (no such message; a name that leads out of the folder), Io.
    Status take(std::string_view bytes);
    /// Everything has arrived.
    [[nodiscard]] bool ended() const { return m_ended; }
    /// Files that differ from those over there, once ended; they are removed here, to be sent again.
    [[nodiscard]] std::vector<std::string> removeDamaged();
    /// Bytes that came so far.
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }

private:
    [[nodiscard]] std::string pathOf(const std::string &name) const;
    Status message(std::string_view line);
    [[nodiscard]] bool makeFolders(const std::string &name) const;
    Status begin(const std::string &name, std::int64_t at, std::int64_t size);
    Status write(std::string_view bytes);
    void readEvents();
    void tell(std::string_view line);

    const std::string m_folder;
    const std::function<void(std::string_view)> m_onEvent;
    std::string m_line;              ///< the part of a message that has come
    std::string m_path;              ///< of the file whose bytes come
    std::int64_t m_place = 0;        ///< where they go
    std::int64_t m_left = 0;         ///< how many are to come
    std::int64_t m_read = 0;         ///< bytes of events.jsonl that were told
    std::size_t m_lines = 0;         ///< lines in them
    std::vector<std::size_t> m_told; ///< a hash of each line that was told, where it is in the file
    std::int64_t m_bytes = 0;
    std::map<std::string, std::string> m_hashes;
    bool m_ended = false;
};

} // namespace planloom::remote
