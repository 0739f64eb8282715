// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/json_pieces.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

namespace planloom::import {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool endsScalar(char c) { return isSpace(c) || c == ',' || c == ']' || c == '}' || c == ':'; }

} // namespace

struct JsonPieces::File {
    gzFile handle = nullptr;
    std::uint64_t bytes = 0; ///< of the file as it lies on the disk
    std::string damage;

    explicit File(const std::string &path) : handle(gzopen(path.c_str(), "rb"))
    {
        std::error_code ignored;
        bytes = std::filesystem::file_size(path, ignored);
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File()
    {
        if (handle)
            gzclose(handle);
    }
};

Result<JsonPieces> JsonPieces::open(const std::string &path)
{
    auto file = std::make_shared<File>(path);
    if (!file->handle)
        return ioError("cannot be opened: " + systemReason()).in(path);
    gzbuffer(file->handle, 1U << 18);
    return JsonPieces(std::move(file));
}

double JsonPieces::fraction() const
{
    const auto at = static_cast<double>(std::max<z_off_t>(gzoffset(m_file->handle), 0));
    return m_file->bytes == 0 ? 1 : at / static_cast<double>(m_file->bytes);
}

std::string JsonPieces::damage() const { return m_file->damage; }

/// Moves what has to stay to the front, and reads a block behind it.
bool JsonPieces::refill()
{
    if (m_ended)
        return false;
    if (m_begin > 0) {
        std::memmove(m_buffer.data(), m_buffer.data() + m_begin, m_size - m_begin);
        m_at -= m_begin;
        m_size -= m_begin;
        m_begin = 0;
    }
    m_buffer.resize(m_size + kBlockBytes + kPadding);
    const int read = gzread(m_file->handle, m_buffer.data() + m_size, static_cast<unsigned>(kBlockBytes));
    int code = Z_OK;
    const char *text = gzerror(m_file->handle, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        m_file->damage = code == Z_BUF_ERROR ? "the compressed data ends too early" : text;
    m_ended = read <= 0;
    m_size += static_cast<std::size_t>(std::max(read, 0));
    return read > 0;
}

int JsonPieces::peek()
{
    for (;;) {
        for (; m_at < m_size; ++m_at) {
            const char c = m_buffer[m_at];
            if (!isSpace(c))
                return static_cast<unsigned char>(c);
            m_line += c == '\n' ? 1 : 0;
        }
        m_begin = m_at;
        if (!refill())
            return -1;
    }
}

void JsonPieces::consumed(std::size_t from, std::size_t to)
{
    const char *end = m_buffer.data() + to;
    for (const char *at = m_buffer.data() + from; at < end; ++at) { // memchr is several times as fast as std::count
        at = static_cast<const char *>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
        if (!at)
            break;
        ++m_line;
    }
}

/// The next byte from m_at on that may end a text, or begin or end one, an object or a list; m_size: there is none.
std::size_t JsonPieces::nextMark(bool quoted) const
{
    const char *text = m_buffer.data();
    std::size_t at = m_at;
    if (quoted) {
        while (at < m_size && text[at] != '"' && text[at] != '\\')
            ++at;
        return at;
    }
    static constexpr auto kMarks = [] {
        std::array<bool, 256> marks{};
        for (const unsigned char c : {'"', '{', '[', '}', ']'})
            marks[c] = true;
        return marks;
    }();
    while (at < m_size && !kMarks[static_cast<unsigned char>(text[at])])
        ++at;
    return at;
}

bool JsonPieces::findEnd(bool keep)
{
    int depth = 0;
    bool quoted = false;
    bool escaped = false;
    bool scalar = false;
    std::size_t counted = m_at;
    for (;;) {
        for (; m_at < m_size; ++m_at) {
            if (depth > 0 && !escaped) // in a value most bytes mean nothing to its end
                m_at = nextMark(quoted);
            if (m_at == m_size)
                break;
            const char c = m_buffer[m_at];
            if (quoted) {
                if (escaped)
                    escaped = false;
                else if (c == '\\')
                    escaped = true;
                else if (c == '"')
                    quoted = false;
                if (quoted || depth > 0)
                    continue;
            } else if (c == '"') {
                quoted = true;
                continue;
            } else if (c == '{' || c == '[') {
                ++depth;
                continue;
            } else if (depth > 0) {
                if ((c != '}' && c != ']') || --depth > 0)
                    continue;
            } else if (!endsScalar(c)) {
                scalar = true;
                continue;
            } else if (!scalar) { // a bracket or comma where a value should be
                scalar = true;
            }
            m_at += scalar && endsScalar(c) ? 0 : 1;
            consumed(counted, m_at);
            return true;
        }
        consumed(counted, m_at);
        if (keep && m_at - m_begin > kMostBytes)
            return false;
        if (!keep)
            m_begin = m_at;
        if (!refill())
            return scalar && depth == 0;
        counted = m_at;
    }
}

Result<std::string_view> JsonPieces::value()
{
    peek();
    m_begin = m_at;
    if (!findEnd(true)) {
        if (m_at - m_begin > kMostBytes)
            return badInput("a value is longer than 16 MiB; such a file is no trace");
        return std::string_view();
    }
    // What lies before it may go at the next refill, which comes after the view's end.
    const std::string_view cut(m_buffer.data() + m_begin, m_at - m_begin);
    m_begin = m_at;
    return cut;
}

bool JsonPieces::skipValue()
{
    peek();
    m_begin = m_at;
    const bool whole = findEnd(false);
    m_begin = m_at;
    return whole;
}

} // namespace planloom::import
