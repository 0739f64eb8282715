// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <unistd.h>

using namespace planloom;

namespace {

std::uint32_t crc32(std::string_view bytes)
{
    std::uint32_t sum = ~0U;
    for (const char byte : bytes) {
        sum ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320U : 0);
    }
    return ~sum;
}

std::string number(std::uint32_t value) { return {reinterpret_cast<const char *>(&value), sizeof value}; }

/// A file whose checksums are right, so that what lies behind them is reached: the tables' size (2 bytes), the tables,
/// a block's columns.
std::string sealed(std::string_view input, bool firstVersion)
{
    const std::size_t wanted =
        input.size() < 2 ? 0 : static_cast<unsigned char>(input[0]) + 256U * static_cast<unsigned char>(input[1]);
    const std::string_view rest = input.substr(std::min<std::size_t>(2, input.size()));
    const std::string tables(rest.substr(0, wanted));
    const std::string columns(rest.substr(tables.size()));
    const std::size_t record = firstVersion ? 28 : 30;
    const std::string block =
        "TBLK" + number(static_cast<std::uint32_t>(columns.size() / record)) + std::string(12, '\0');
    const std::string whole = columns.substr(0, columns.size() / record * record);
    return (firstVersion ? "PLTRACE1" : "PLTRACE2") + number(static_cast<std::uint32_t>(tables.size()))
        + number(crc32(tables)) + tables + block + number(crc32(block + whole)) + whole;
}

} // namespace

/// Any bytes as a trace file, bare or with checksums put right as version 1 or 2: an error, or a trace that can be
/// indexed and drawn.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const std::string path = "/tmp/fuzz_trace." + std::to_string(::getpid());
    ::setenv("PLANLOOM_LOG", "off", 0);
    const std::string_view input(reinterpret_cast<const char *>(data), size);
    const int how = size > 0 ? data[0] % 4 : 0;
    std::ofstream(path, std::ios::binary)
        << (how == 0 ? std::string(input.substr(std::min<std::size_t>(1, size))) : sealed(input, how != 2));
    const auto trace = trace::readTrace(path);
    if (!trace)
        return 0;
    const trace::LevelOfDetail index(*trace);
    std::vector<trace::Bar> bars;
    for (const trace::Row &row : index.rows())
        row.query({index.begin(), index.end()}, 50, bars);
    return 0;
}
