// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <string_view>

namespace planloom::import {

/// A field of a message: a number, or bytes that lie in the message.
struct WireField {
    std::uint32_t number = 0;
    std::uint64_t value = 0;
    std::string_view bytes;
};

/// The fields of a message, one after the other.
class WireMessage {
public:
    explicit WireMessage(std::string_view bytes)
        : m_coded(reinterpret_cast<const std::uint8_t *>(bytes.data()), static_cast<int>(bytes.size()))
    {
    }

    /// False: it has ended, or is malformed from here on.
    bool next(WireField &field)
    {
        const std::uint32_t tag = m_coded.ReadTag();
        field = {};
        field.number = tag >> 3;
        std::uint32_t size = 0;
        switch (field.number == 0 ? 7 : tag & 7) {
        case 0: return m_coded.ReadVarint64(&field.value);
        case 1: return m_coded.ReadLittleEndian64(&field.value);
        case 2: return m_coded.ReadVarint32(&size) && take(size, field.bytes);
        case 5:
            if (!m_coded.ReadLittleEndian32(&size))
                return false;
            field.value = size;
            return true;
        default: return false; // groups, which nothing uses
        }
    }

private:
    bool take(std::uint32_t size, std::string_view &bytes)
    {
        const void *data = nullptr;
        int left = 0;
        if (size == 0)
            return true;
        if (!m_coded.GetDirectBufferPointer(&data, &left) || size > static_cast<std::uint32_t>(left))
            return false;
        bytes = {static_cast<const char *>(data), size};
        return m_coded.Skip(static_cast<int>(size));
    }

    google::protobuf::io::CodedInputStream m_coded;
};

} // namespace planloom::import
