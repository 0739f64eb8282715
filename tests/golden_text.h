// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace planloom::testing {

/// The text of tests/@p file. With PLANLOOM_UPDATE_GOLDEN in the environment the file is first rewritten to @p now. A
/// missing file reads as an empty text.
inline std::string goldenText(const std::string &file, const std::string &now)
{
    const std::string path = std::string(PLANLOOM_SOURCE_DIR "/tests/") + file;
    if (std::getenv("PLANLOOM_UPDATE_GOLDEN") != nullptr)
        std::ofstream(path, std::ios::binary) << now;
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace planloom::testing
