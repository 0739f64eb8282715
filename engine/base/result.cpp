// SPDX-License-Identifier: Apache-2.0
#include "engine/base/result.h"

#include <cerrno>
#include <cstring>

namespace planloom {

std::string systemReason() { return std::strerror(errno); }

std::string Error::text() const
{
    if (file.empty())
        return message;
    if (line <= 0)
        return file + ": " + message;
    return file + ":" + std::to_string(line) + ": " + message;
}

Error Error::in(std::string path, int atLine) const
{
    if (!file.empty())
        return *this;
    return {code, message, std::move(path), line > 0 ? line : atLine};
}

} // namespace planloom
