// SPDX-License-Identifier: Apache-2.0
#include "engine/weights/safetensors.h"

#include <cstdlib>
#include <string_view>

using namespace planloom;

/// Any bytes as a safetensors file: an error, or tensors whose data lie in the file, side by side, and a header that
/// can be written again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view bytes(reinterpret_cast<const char *>(data), size);
    auto header = weights::readHeader(bytes, static_cast<std::int64_t>(size));
    if (!header)
        return 0;
    std::int64_t at = header->tensors.empty() ? static_cast<std::int64_t>(size) : header->tensors.front().begin;
    for (const auto &tensor : header->tensors) {
        if (tensor.begin != at || tensor.end < at || tensor.end > static_cast<std::int64_t>(size))
            std::abort();
        at = tensor.end;
    }
    if (at != static_cast<std::int64_t>(size))
        std::abort();
    const std::string again = weights::makeHeader(header->tensors, header->metadata);
    const std::int64_t end =
        header->tensors.empty() ? static_cast<std::int64_t>(again.size()) : header->tensors.back().end;
    if (const auto second = weights::readHeader(again, end); end == static_cast<std::int64_t>(again.size()) && !second)
        std::abort();
    return 0;
}
