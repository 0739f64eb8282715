// SPDX-License-Identifier: Apache-2.0
// The readers of training data, on bytes: the first byte chooses the format.
#include "executor/data/readers.h"

#include <array>

namespace {

using namespace planloom;

void readTokens(std::string_view contents, int width)
{
    data::Needs needs;
    needs.kind = data::Needs::Kind::Tokens;
    needs.perSample = 4;
    needs.classes = 256;
    const auto set = data::makeTokenData(std::string(contents), width, "fuzz", needs);
    if (!set)
        return;
    std::array<std::int64_t, 4> tokens{};
    (*set)->fillInput((*set)->samples() - 1, tokens.data());
    (*set)->fillLabels((*set)->samples() - 1, tokens.data());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size)
{
    if (size < 2)
        return 0;
    const std::string_view contents(reinterpret_cast<const char *>(bytes) + 1, size - 1);
    constexpr std::array<int, 3> kTokenWidths = {1, 2, 4};
    const unsigned format = bytes[0] % 6;
    if (format == 0)
        (void)data::readCsv(contents, "/nonexistent/fuzz.csv");
    else if (format == 1)
        (void)data::readNpy(contents, "/nonexistent/fuzz.npy");
    else if (format == 2)
        (void)data::readIdx(contents, "/nonexistent/fuzz-images-idx3-ubyte");
    else
        readTokens(contents, kTokenWidths[format - 3]);
    return 0;
}
