// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// A JSON file, plain or compressed with gzip, as a sequence of values that are cut out of it one after the other: the
/// file is never in memory as a whole. Values are cut by their brackets and quotes alone; their contents are checked by
/// the parser that they are given to.
class JsonPieces {
public:
    static constexpr std::size_t kPadding = 64;         ///< readable bytes behind every value
    static constexpr std::size_t kMostBytes = 16 << 20; ///< of one value

    /// Errors: Io.
    static Result<JsonPieces> open(const std::string &path);

    /// The next byte that is not white space, which stays; -1 at the end of the file.
    int peek();
    void take() { ++m_at; }
    /// The value at the next byte; valid until the next call. Empty: the file ends inside of it. Error: longer than
    /// kMostBytes.
    Result<std::string_view> value();
    /// The same without keeping it. False: the file ends inside of it.
    bool skipValue();

    [[nodiscard]] std::int64_t line() const { return m_line; } ///< of the next byte, from 1
    [[nodiscard]] double fraction() const;                     ///< of the file that was read
    /// Why reading ended before the file did (a damaged archive, an error of the disk); empty: it did not.
    [[nodiscard]] std::string damage() const;

private:
    struct File;
    explicit JsonPieces(std::shared_ptr<File> file) : m_file(std::move(file)) {}
    bool refill();
    /// Where the value that begins at m_at ends, reading on as needed; false at the end of the file.
    bool findEnd(bool keep);
    [[nodiscard]] std::size_t nextMark(bool quoted) const;
    void consumed(std::size_t from, std::size_t to);

    std::shared_ptr<File> m_file;
    std::vector<char> m_buffer;
    std::size_t m_begin = 0; ///< of what has to stay in the buffer
    std::size_t m_at = 0;
    std::size_t m_size = 0; ///< bytes in the buffer, without the padding
    std::int64_t m_line = 1;
    bool m_ended = false;
};

} // namespace planloom::import
