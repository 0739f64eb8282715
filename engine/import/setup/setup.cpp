// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/setup/setup.h"

namespace planloom::import {
namespace {

/// No configuration is longer; a file that was named by mistake may be.
constexpr std::int64_t kLongest = 16 << 20;

/// True if a line of the text is a table's heading, "[model]".
bool hasTables(std::string_view text)
{
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        const std::size_t first = line.find_first_not_of(" \t\r");
        const std::size_t close = line.find(']');
        if (first != std::string_view::npos && line[first] == '[' && close != std::string_view::npos
            && line.find('"') > close && line.find(' ', first) > close)
            return true;
        begin = end + 1;
    }
    return false;
}

} // namespace

Result<plan::Setup> readSetup(std::string_view text, const std::string &name)
{
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos)
        return badInput(
                   "is empty; name a file of Megatron-LM's arguments, or a configuration of DeepSpeed or torchtitan")
            .in(name);
    if (text[first] == '{')
        return readDeepSpeedConfig(text, name);
    return name.ends_with(".toml") || hasTables(text) ? readTorchtitanConfig(text, name)
                                                      : readMegatronArguments(text, name);
}

Result<plan::Setup> loadSetup(const std::string &path)
{
    const auto text = readFile(path, kLongest);
    return text ? readSetup(*text, path) : text.error();
}

} // namespace planloom::import
