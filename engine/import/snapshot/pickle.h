// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// Plain data out of Python's pickle: None, bool, int, float, str, list, tuple and dict. Nothing is called, made or
/// looked up. Values are numbered; a value may be in several places, even in itself, so that a walk through them has to
/// be bounded. 16 bytes a value beside what containers hold. Texts may be views of the bytes that were read, which have
/// to outlive it.
class Pickle {
public:
    enum class Kind : std::uint8_t { None, Bool, Integer, Real, Text, List, Tuple, Dict };
    using Id = std::uint32_t;

    [[nodiscard]] Id root() const { return m_root; }
    [[nodiscard]] std::size_t size() const { return m_values.size(); } ///< ids are below
    [[nodiscard]] Kind kind(Id id) const { return m_values[id].kind; }
    /// Of an Integer or a Bool; else nothing.
    [[nodiscard]] std::optional<std::int64_t> integer(Id id) const;
    /// Of a Text; else nothing.
    [[nodiscard]] std::optional<std::string_view> text(Id id) const;
    /// Of a List or Tuple; else empty.
    [[nodiscard]] std::span<const Id> items(Id id) const;
    /// Keys and values of a Dict by turns; else empty.
    [[nodiscard]] std::span<const Id> pairs(Id id) const;
    /// Of a Dict: the last value with this text as its key; else nothing. Cost: O(its pairs).
    [[nodiscard]] std::optional<Id> find(Id dict, std::string_view key) const;

private:
    friend class PickleReader;
    struct Value {
        union {
            std::int64_t integer = 0; ///< or the index of a container
            double real;
            const char *text;
        };
        std::uint32_t bytes = 0; ///< of a text
        Kind kind = Kind::None;
    };
    static_assert(sizeof(Value) == 16);

    std::vector<Value> m_values;
    std::vector<std::vector<Id>> m_containers;
    std::deque<std::string> m_decoded; ///< texts that are not in the bytes as they are
    Id m_root = 0;
};

inline constexpr std::size_t kLargestPickle = std::size_t{1} << 31; ///< bytes

/// Reads the opcodes of protocols 0 to 5 that make plain data. Errors (BadInput): any other opcode, by its name and the
/// byte where it stands; a length beyond the end; a stack that does not add up; marks nested deeper than 64; more than
/// 2^26 values; integers of more than 64 bits. Cost: O(bytes), and at most 64 bytes of memory for each.
Result<Pickle> readPickle(std::string_view bytes);

} // namespace planloom::import
