// SPDX-License-Identifier: Apache-2.0
#include "engine/run/transfers.h"

#include "engine/base/files.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <string_view>

namespace planloom::run {
namespace {

bool wholeNumber(std::string_view text, std::int64_t &number)
{
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

/// "iteration,to,bytes" into @p sums. False if it is something else.
bool addLine(std::string_view line, SentSums &sums)
{
    const std::size_t first = line.find(',');
    const std::size_t last = line.rfind(',');
    std::int64_t iteration = 0, bytes = 0;
    if (first == std::string_view::npos || last <= first + 1 || !wholeNumber(line.substr(0, first), iteration)
        || !wholeNumber(line.substr(last + 1), bytes))
        return false;
    sums[{iteration, std::string(line.substr(first + 1, last - first - 1))}] = bytes;
    return true;
}

} // namespace

std::string transfersFile(const std::string &runFolder, const std::string &name)
{
    return runFolder + "/transfers/" + name + ".csv";
}

Result<SentSums> readSent(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    SentSums sums;
    int number = 0;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text->find('\n', begin)) != std::string::npos; begin = end + 1) {
        ++number;
        if (!addLine(std::string_view(*text).substr(begin, end - begin), sums))
            return badInput("is no transfer; a line is ITERATION,TO,BYTES").in(path, number);
    }
    return sums;
}

Status keepSentBefore(const std::string &path, std::int64_t first)
{
    std::string kept;
    if (const auto sums = readSent(path)) {
        for (const auto &[key, bytes] : *sums) {
            if (key.first < first)
                fmt::format_to(std::back_inserter(kept), "{},{},{}\n", key.first, key.second, bytes);
        }
    }
    return writeFileAtomically(path, kept);
}

} // namespace planloom::run
