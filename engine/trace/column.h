// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace planloom::trace {

/// @p data, a block of @p bytes of this function (null, 0: none yet), with room for @p more bytes. Blocks of 256 KiB
/// and more are mapped: the kernel moves their pages, and nothing is copied or touched. Throws std::bad_alloc.
void *grownBlock(void *data, std::size_t bytes, std::size_t more);
void freeBlock(void *data, std::size_t bytes);

/// A vector of numbers for a trace that grows while it is shown. Growth costs what is new, never what is there: a
/// vector that doubles from a million numbers on copies them all within one event of the studio, into memory that the
/// kernel has to provide page by page. Thread contract: as for a vector.
template <class Number>
class Column {
    static_assert(std::is_trivially_copyable_v<Number>);

public:
    Column() = default;
    Column(const Column &other) { *this = other; }
    Column(Column &&other) noexcept { swap(other); }
    ~Column() { freeBlock(m_data, m_room * sizeof(Number)); }
    Column &operator=(const Column &other)
    {
        if (this == &other)
            return *this;
        Column copy;
        if (other.m_size > 0) {
            copy.reserve(other.m_size);
            std::memcpy(copy.m_data, other.m_data, other.m_size * sizeof(Number));
            copy.m_size = other.m_size;
        }
        swap(copy);
        return *this;
    }
    Column &operator=(Column &&other) noexcept
    {
        swap(other);
        return *this;
    }

    [[nodiscard]] std::size_t size() const { return m_size; }
    [[nodiscard]] bool empty() const { return m_size == 0; }
    [[nodiscard]] const Number &operator[](std::size_t at) const { return m_data[at]; }
    [[nodiscard]] const Number &front() const { return m_data[0]; }
    [[nodiscard]] const Number *begin() const { return m_data; }
    [[nodiscard]] const Number *end() const { return m_data + m_size; }

    /// Cost: O(numbers behind it).
    void insert(std::size_t at, Number number)
    {
        if (m_size == m_room)
            reserve(m_room == 0 ? 8 : 2 * m_room);
        if (at < m_size)
            std::memmove(m_data + at + 1, m_data + at, (m_size - at) * sizeof(Number));
        m_data[at] = number;
        ++m_size;
    }

private:
    void reserve(std::size_t room)
    {
        m_data = static_cast<Number *>(grownBlock(m_data, m_room * sizeof(Number), room * sizeof(Number)));
        m_room = room;
    }
    void swap(Column &other) noexcept
    {
        std::swap(m_data, other.m_data);
        std::swap(m_size, other.m_size);
        std::swap(m_room, other.m_room);
    }

    Number *m_data = nullptr;
    std::size_t m_size = 0;
    std::size_t m_room = 0;
};

} // namespace planloom::trace
