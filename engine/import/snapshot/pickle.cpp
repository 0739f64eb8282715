// SPDX-License-Identifier: Apache-2.0
// Opcodes by Python's own description of them (pickletools, protocols 0 to 5).
#include "engine/import/snapshot/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

namespace planloom::import {

namespace {

constexpr std::size_t kMostPickleValues = std::size_t{1} << 26;
constexpr std::size_t kDeepestMarks = 64;
constexpr std::size_t kHighestProtocol = 5;

/// Opcodes that plain data do not need: they make objects, call functions, or hold bytes.
struct RefusedOpcode {
    unsigned char code;
    const char *name;
};
constexpr RefusedOpcode kRefused[] = {
    {'c', "GLOBAL"},       {'i', "INST"},
    {'o', "OBJ"},          {'R', "REDUCE"},
    {'b', "BUILD"},        {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},   {0x93, "STACK_GLOBAL"},
    {'P', "PERSID"},       {'Q', "BINPERSID"},
    {0x82, "EXT1"},        {0x83, "EXT2"},
    {0x84, "EXT4"},        {'S', "STRING"},
    {'T', "BINSTRING"},    {'U', "SHORT_BINSTRING"},
    {'B', "BINBYTES"},     {'C', "SHORT_BINBYTES"},
    {0x8e, "BINBYTES8"},   {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
    {0x8f, "EMPTY_SET"},   {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},   {'0', "POP"},
    {'1', "POP_MARK"},     {'2', "DUP"},
};

std::string opcodeName(unsigned char code)
{
    const auto *found = std::ranges::find(kRefused, code, &RefusedOpcode::code);
    return found == std::end(kRefused) ? fmt::format("0x{:02x}", code) : std::string(found->name);
}

void appendUtf8(std::string &text, std::uint32_t point)
{
    const auto put = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
    if (point < 0x80) {
        put(point);
    } else if (point < 0x800) {
        put(0xc0U | (point >> 6U));
        put(0x80U | (point & 0x3fU));
    } else if (point < 0x10000) {
        put(0xe0U | (point >> 12U));
        put(0x80U | ((point >> 6U) & 0x3fU));
        put(0x80U | (point & 0x3fU));
    } else {
        put(0xf0U | (point >> 18U));
        put(0x80U | ((point >> 12U) & 0x3fU));
        put(0x80U | ((point >> 6U) & 0x3fU));
        put(0x80U | (point & 0x3fU));
    }
}

} // namespace

std::optional<std::int64_t> Pickle::integer(Id id) const
{
    const Value &value = m_values[id];
    return value.kind == Kind::Integer || value.kind == Kind::Bool ? std::optional(value.integer) : std::nullopt;
}

std::optional<std::string_view> Pickle::text(Id id) const
{
    const Value &value = m_values[id];
    return value.kind == Kind::Text ? std::optional(std::string_view(value.text, value.bytes)) : std::nullopt;
}

std::span<const Pickle::Id> Pickle::items(Id id) const
{
    const Value &value = m_values[id];
    if (value.kind != Kind::List && value.kind != Kind::Tuple)
        return {};
    return m_containers[static_cast<std::size_t>(value.integer)];
}

std::span<const Pickle::Id> Pickle::pairs(Id id) const
{
    const Value &value = m_values[id];
    return value.kind == Kind::Dict ? std::span<const Id>(m_containers[static_cast<std::size_t>(value.integer)])
                                    : std::span<const Id>();
}

std::optional<Pickle::Id> Pickle::find(Id dict, std::string_view key) const
{
    const std::span<const Id> all = pairs(dict);
    for (std::size_t at = all.size(); at >= 2; at -= 2) {
        if (text(all[at - 2]) == key)
            return all[at - 1];
    }
    return std::nullopt;
}

/// Python's stack machine, without anything that could run.
class PickleReader {
public:
    explicit PickleReader(std::string_view bytes) : m_bytes(bytes) {}

    Result<Pickle> read()
    {
        while (m_error.empty() && !m_stopped) {
            m_opcode = m_at;
            step();
        }
        if (m_error.empty() && (m_stack.size() != 1 || !m_marks.empty()))
            fail(fmt::format("the pickle ends with {} values on its stack, and must with one", m_stack.size()));
        if (!m_error.empty())
            return badInput(fmt::format("byte {}: {}", m_opcode, m_error));
        m_pickle.m_root = m_stack.front();
        return std::move(m_pickle);
    }

private:
    using Kind = Pickle::Kind;
    using Id = Pickle::Id;

    void fail(std::string why)
    {
        if (m_error.empty())
            m_error = std::move(why);
    }

    void step()
    {
        const auto code = number<std::uint8_t>();
        if (!m_error.empty() || stepScalar(code) || stepContainer(code) || stepMemo(code) || !m_error.empty())
            return;
        switch (code) {
        case 0x80: // PROTO
            if (number<std::uint8_t>() > kHighestProtocol)
                fail(fmt::format("the pickle has a protocol above {}", kHighestProtocol));
            return;
        case 0x95: // FRAME
            if (number<std::uint64_t>() > m_bytes.size() - m_at)
                fail("a frame is longer than the file; it is cut short");
            return;
        case '.': m_stopped = true; return;
        default:
            fail(fmt::format("the opcode {} is not of plain data and is not read; a memory snapshot has only dicts, "
                             "lists, tuples, texts and numbers",
                             opcodeName(code)));
        }
    }

    bool stepScalar(std::uint8_t code)
    {
        switch (code) {
        case 'N': push(Kind::None, 0); return true;
        case 0x88: push(Kind::Bool, 1); return true;
        case 0x89: push(Kind::Bool, 0); return true;
        case 'J': push(Kind::Integer, number<std::int32_t>()); return true;
        case 'K': push(Kind::Integer, number<std::uint8_t>()); return true;
        case 'M': push(Kind::Integer, number<std::uint16_t>()); return true;
        case 0x8a: pushLong(number<std::uint8_t>()); return true;
        case 0x8b: pushLong(number<std::uint32_t>()); return true;
        case 'I':
        case 'L': pushDecimal(line()); return true;
        case 'F': pushReal(line()); return true;
        case 'G': pushReal(std::bit_cast<double>(bigEndian())); return true;
        case 'X': pushText(take(number<std::uint32_t>())); return true;
        case 0x8c: pushText(take(number<std::uint8_t>())); return true;
        case 0x8d: pushText(take(number<std::uint64_t>())); return true;
        case 'V': pushEscaped(line()); return true;
        default: return false;
        }
    }

    bool stepContainer(std::uint8_t code)
    {
        switch (code) {
        case '(':
            if (m_marks.size() >= kDeepestMarks)
                fail(fmt::format("marks are nested deeper than {}", kDeepestMarks));
            else
                m_marks.push_back(m_stack.size());
            return true;
        case ']': pushContainer(Kind::List, 0); return true;
        case '}': pushContainer(Kind::Dict, 0); return true;
        case ')': pushContainer(Kind::Tuple, 0); return true;
        case 'l': pushContainer(Kind::List, toMark()); return true;
        case 'd': pushContainer(Kind::Dict, toMark()); return true;
        case 't': pushContainer(Kind::Tuple, toMark()); return true;
        case 0x85: pushContainer(Kind::Tuple, 1); return true;
        case 0x86: pushContainer(Kind::Tuple, 2); return true;
        case 0x87: pushContainer(Kind::Tuple, 3); return true;
        case 'a': append(Kind::List, 1); return true;
        case 's': append(Kind::Dict, 2); return true;
        case 'e': append(Kind::List, toMark()); return true;
        case 'u': append(Kind::Dict, toMark()); return true;
        default: return false;
        }
    }

    bool stepMemo(std::uint8_t code)
    {
        switch (code) {
        case 'p': put(index(line())); return true;
        case 'q': put(number<std::uint8_t>()); return true;
        case 'r': put(number<std::uint32_t>()); return true;
        case 0x94: put(m_memoized); return true;
        case 'g': get(index(line())); return true;
        case 'h': get(number<std::uint8_t>()); return true;
        case 'j': get(number<std::uint32_t>()); return true;
        default: return false;
        }
    }

    // --- bytes

    std::string_view take(std::uint64_t size)
    {
        if (size > m_bytes.size() - m_at) {
            fail(fmt::format("{} bytes are promised and {} are left; the file is cut short or damaged", size,
                             m_bytes.size() - m_at));
            return {};
        }
        const std::string_view taken = m_bytes.substr(m_at, static_cast<std::size_t>(size));
        m_at += static_cast<std::size_t>(size);
        return taken;
    }

    template <class Number>
    Number number()
    {
        Number value{};
        const std::string_view taken = take(sizeof value);
        if (taken.size() == sizeof value)
            std::memcpy(&value, taken.data(), sizeof value);
        return value;
    }

    std::uint64_t bigEndian()
    {
        std::uint64_t value = 0;
        for (const char c : take(sizeof value))
            value = value << 8U | static_cast<unsigned char>(c);
        return value;
    }

    /// Up to the end of the line, of protocol 0.
    std::string_view line()
    {
        const std::size_t end = m_bytes.find('\n', m_at);
        if (end == std::string_view::npos) {
            fail("a line has no end; the file is cut short");
            return {};
        }
        const std::string_view text = m_bytes.substr(m_at, end - m_at);
        m_at = end + 1;
        return text;
    }

    std::size_t index(std::string_view text)
    {
        std::size_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size())
            fail("a number of the memo is none");
        return value;
    }

    // --- values

    Id add(Kind kind)
    {
        if (m_pickle.m_values.size() >= kMostPickleValues) {
            fail(fmt::format("there are more than {} values", kMostPickleValues));
            return 0;
        }
        m_pickle.m_values.emplace_back();
        m_pickle.m_values.back().kind = kind;
        const Id id = static_cast<Id>(m_pickle.m_values.size() - 1);
        m_stack.push_back(id);
        return id;
    }

    void push(Kind kind, std::int64_t value)
    {
        if (m_error.empty())
            if (const Id id = add(kind); m_error.empty())
                m_pickle.m_values[id].integer = value;
    }

    void pushReal(double value)
    {
        if (m_error.empty())
            if (const Id id = add(Kind::Real); m_error.empty())
                m_pickle.m_values[id].real = value;
    }

    void pushReal(std::string_view text)
    {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size())
            fail("a number is none");
        pushReal(value);
    }

    void pushText(std::string_view text)
    {
        if (!m_error.empty())
            return;
        if (const Id id = add(Kind::Text); m_error.empty()) {
            m_pickle.m_values[id].text = text.data();
            m_pickle.m_values[id].bytes = static_cast<std::uint32_t>(text.size());
        }
    }

    /// Protocol 0: Latin-1 with \uXXXX and \UXXXXXXXX for all else.
    void pushEscaped(std::string_view text)
    {
        std::string decoded;
        for (std::size_t at = 0; at < text.size(); ++at) {
            const std::size_t digits = text[at] != '\\' || at + 1 >= text.size() ? 0
                : text[at + 1] == 'u'                                            ? 4
                : text[at + 1] == 'U'                                            ? 8
                                                                                 : 0;
            std::uint32_t point = static_cast<unsigned char>(text[at]);
            if (digits > 0) {
                const std::string_view hex = text.substr(at + 2, digits);
                const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), point, 16);
                if (hex.size() != digits || error != std::errc{} || end != hex.data() + hex.size() || point > 0x10ffff)
                    return fail("a text has a character that is none");
                at += 1 + digits;
            }
            appendUtf8(decoded, point);
        }
        pushText(m_pickle.m_decoded.emplace_back(std::move(decoded)));
    }

    /// Little-endian, two's complement; unsigned 64-bit addresses have a ninth byte.
    void pushLong(std::uint64_t size)
    {
        const std::string_view bytes = take(size);
        std::uint64_t value = !bytes.empty() && (bytes.back() & '\x80') != 0 ? ~std::uint64_t{0} : 0;
        if (bytes.size() > 9 || (bytes.size() == 9 && bytes.back() != 0))
            return fail(fmt::format("an integer has {} bytes; at most 64 bits are read", bytes.size()));
        for (std::size_t i = std::min<std::size_t>(bytes.size(), 8); i > 0; --i)
            value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
        push(Kind::Integer, static_cast<std::int64_t>(value));
    }

    void pushDecimal(std::string_view text)
    {
        if (text == "00" || text == "01")
            return push(Kind::Bool, text == "01" ? 1 : 0);
        if (text.ends_with('L'))
            text.remove_suffix(1);
        std::int64_t value = 0;
        std::uint64_t address = 0; // with the highest bit
        const char *last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, value);
        if (error == std::errc{} && end == last)
            return push(Kind::Integer, value);
        const auto [endOfAddress, wrong] = std::from_chars(text.data(), last, address);
        if (wrong != std::errc{} || endOfAddress != last)
            return fail("an integer is none, or has more than 64 bits");
        push(Kind::Integer, static_cast<std::int64_t>(address));
    }

    // --- containers

    /// Values above the topmost mark, which goes.
    std::size_t toMark()
    {
        if (m_marks.empty()) {
            fail("a mark is missing; the file is damaged");
            return 0;
        }
        const std::size_t count = m_stack.size() - m_marks.back();
        m_marks.pop_back();
        return count;
    }

    /// Whether there are @p count values above the topmost mark.
    bool has(std::size_t count)
    {
        const std::size_t floor = m_marks.empty() ? 0 : m_marks.back();
        if (m_error.empty() && m_stack.size() - floor < count)
            fail("the stack has too few values; the file is damaged");
        return m_error.empty();
    }

    void pushContainer(Kind kind, std::size_t count)
    {
        if (!has(count))
            return;
        if (kind == Kind::Dict && count % 2 != 0)
            return fail("a dict has a key without its value; the file is damaged");
        std::vector<Id> items(m_stack.end() - static_cast<std::ptrdiff_t>(count), m_stack.end());
        m_stack.resize(m_stack.size() - count);
        const auto at = static_cast<std::int64_t>(m_pickle.m_containers.size());
        m_pickle.m_containers.push_back(std::move(items));
        push(kind, at);
    }

    /// To the container beneath the values.
    void append(Kind kind, std::size_t count)
    {
        if (!has(count + 1))
            return;
        const Pickle::Value &value = m_pickle.m_values[m_stack[m_stack.size() - count - 1]];
        if (value.kind != kind || (kind == Kind::Dict && count % 2 != 0))
            return fail("values are added to what is no list or dict; the file is damaged");
        auto &items = m_pickle.m_containers[static_cast<std::size_t>(value.integer)];
        items.insert(items.end(), m_stack.end() - static_cast<std::ptrdiff_t>(count), m_stack.end());
        m_stack.resize(m_stack.size() - count);
    }

    // --- memo

    void put(std::size_t at)
    {
        if (!has(1))
            return;
        if (at > m_bytes.size())
            return fail("a number of the memo is larger than the file; the file is damaged");
        if (at >= m_memo.size())
            m_memo.resize(at + 1, kNothing);
        m_memoized += m_memo[at] == kNothing ? 1 : 0;
        m_memo[at] = m_stack.back();
    }

    void get(std::size_t at)
    {
        if (!m_error.empty())
            return;
        if (at >= m_memo.size() || m_memo[at] == kNothing)
            return fail("a value is asked for that the memo does not have; the file is damaged");
        m_stack.push_back(m_memo[at]);
    }

    static constexpr Id kNothing = ~Id{0};

    std::string_view m_bytes;
    std::size_t m_at = 0;
    std::size_t m_opcode = 0; ///< where the current one stands
    bool m_stopped = false;
    std::string m_error;
    Pickle m_pickle;
    std::vector<Id> m_stack, m_memo;
    std::vector<std::size_t> m_marks;
    std::size_t m_memoized = 0; ///< entries of the memo
};

Result<Pickle> readPickle(std::string_view bytes)
{
    if (bytes.size() > kLargestPickle)
        return badInput(
            fmt::format("the file has {} bytes; a pickle of at most {} is read", bytes.size(), kLargestPickle));
    return PickleReader(bytes).read();
}

} // namespace planloom::import
