// SPDX-License-Identifier: Apache-2.0
#include "engine/base/crc32c.h"
#include "executor/checkpoint/manifest.h"

#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>

using namespace planloom;

namespace {

/// A manifest whose checksum is right, so that what lies behind it is reached.
std::string sealed(std::string_view body)
{
    return fmt::format("{{\"crc32c\": \"{:08x}\",\n", crc32c(std::as_bytes(std::span(body)))) + std::string(body);
}

} // namespace

/// Any bytes as a manifest, bare or with the checksum put right: an error, or pieces that can be intersected and a text
/// that reads the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view input(reinterpret_cast<const char *>(data), size);
    const bool bare = size > 0 && data[0] == '{';
    const auto manifest = checkpoint::manifestFromJson(bare ? std::string(input) : sealed(input));
    if (!manifest)
        return 0;
    const std::string text = checkpoint::toJson(*manifest);
    const auto again = checkpoint::manifestFromJson(text);
    if (!again || checkpoint::toJson(*again) != text)
        std::abort();
    if (!checkpoint::checkComplete(*manifest))
        return 0;
    constexpr std::int64_t kMostRuns = 100'000;
    for (const auto &stored : manifest->pieces) {
        if (stored.what.flatCount > kMostRuns)
            continue;
        std::int64_t common = 0;
        checkpoint::eachCommonRun(stored.what, stored.what,
                                  [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                                      if (from != to || count <= 0)
                                          std::abort();
                                      common += count;
                                  });
        if (common != stored.what.flatCount)
            std::abort();
    }
    return 0;
}
