// SPDX-License-Identifier: Apache-2.0
#include "engine/store/workspace_file.h"

#include "engine/store/migrations.h"

#include <array>
#include <fstream>
#include <string_view>

namespace planloom::store {

bool isWorkspaceFile(const std::string &path)
{
    using namespace std::string_view_literals;
    constexpr std::size_t kNumberAt = 68; // SQLite's file format, section 1.3: "Application ID", most significant first
    std::array<char, 100> header{};
    std::ifstream file(path, std::ios::binary);
    if (!file.read(header.data(), header.size()))
        return false;
    const std::string_view text(header.data(), header.size());
    if (!text.starts_with("SQLite format 3\0"sv))
        return false;
    std::int64_t number = 0;
    for (const char byte : text.substr(kNumberAt, 4))
        number = number << 8 | static_cast<unsigned char>(byte);
    return number == kApplicationId;
}

} // namespace planloom::store
