// SPDX-License-Identifier: Apache-2.0
// What another machine sends of a run, and what it is asked: everything stays in the run's folder.
#include "executor/remote/items.h"
#include "executor/remote/mirror.h"
#include "executor/remote/ssh.h"
#include "executor/remote/target.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

using namespace planloom::remote;
namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const std::string folder = [] {
        std::string path = "/tmp/planloom-fuzz-XXXXXX";
        if (::mkdtemp(path.data()) == nullptr)
            std::abort();
        fs::create_directory(path + "/run");
        std::ofstream(path + "/run/remote.json") << "mine";
        return path;
    }();
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    if (const auto item = itemFromJson(text); item && itemFromJson(toJson(*item))->id() != item->id())
        std::abort();
    if (const auto target = targetFromJson(text); target && !(*targetFromJson(toJson(*target)) == *target))
        std::abort();
    [[maybe_unused]] const auto reply = findReply(text);
    Mirror mirror(folder + "/run", [](std::string_view) {});
    const auto half = size / 2;
    [[maybe_unused]] auto taken = mirror.take(text.substr(0, half));
    if (taken)
        taken = mirror.take(text.substr(half));
    [[maybe_unused]] const auto damaged = mirror.removeDamaged();
    // Nothing beside the folder, and what is not the other machine's stays.
    if (std::distance(fs::directory_iterator(folder), fs::directory_iterator()) != 1
        || fs::file_size(folder + "/run/remote.json") != 4)
        std::abort();
    for (const auto &entry : fs::directory_iterator(folder + "/run")) {
        if (entry.path().filename() != "remote.json")
            fs::remove_all(entry.path());
    }
    return 0;
}
