// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/load.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/remote/places.h"
#include "executor/remote/ssh.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kCheckSeconds = 3600; ///< to hash what was sent
constexpr auto kNoteEvery = std::chrono::seconds(5);

std::vector<const Item *> itemsOf(const Load &load)
{
    std::vector<const Item *> all{&load.data};
    if (load.model)
        all.push_back(&*load.model);
    return all;
}

std::string itemsRequest(const char *what, const Load &load)
{
    Json list = Json::array();
    for (const Item *item : itemsOf(load))
        list.push_back(Json::parse(toJson(*item)));
    return Json{{"do", what}, {"items", std::move(list)}}.dump();
}

/// An absolute path that sftp takes as it is.
bool isPlainFolder(std::string_view path)
{
    return path.starts_with('/') && std::ranges::all_of(path, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.'
                   || c == '_' || c == '-';
           });
}

struct Missing {
    std::vector<Copy> copies;
    std::int64_t bytes = 0;
};

/// The files that are not over there; a note says how much that is.
Result<Missing> missingAt(const Target &target, const Load &load, const Note &note, const std::atomic<bool> &stop)
{
    const auto reply = askSameVersion(target, itemsRequest("need", load), kAnswerSeconds, &stop);
    if (!reply)
        return reply.error();
    const auto document = parseJson(*reply);
    JsonReader reader(*document);
    const std::string folder = reader.text("folder");
    if (!isPlainFolder(folder))
        return unsupported(fmt::format("{}: the cache over there is {}; set XDG_CACHE_HOME there to a path of letters, "
                                       "digits and ._-",
                                       target.url(), folder));
    Missing missing;
    std::int64_t all = 0;
    const auto items = itemsOf(load);
    std::size_t i = 0;
    reader.list("items", [&](JsonReader &entry) {
        if (i >= items.size())
            return;
        const Item &item = *items[i++];
        all += item.bytes();
        if (entry.flag("here", false))
            return;
        std::size_t f = 0;
        entry.list("files", [&](JsonReader &bytes) {
            if (f >= item.files.size())
                return;
            const ItemFile &file = item.files[f++];
            const auto have = bytes.asInteger(0, file.bytes);
            missing.bytes += file.bytes - have;
            if (have < file.bytes || have == 0)
                missing.copies.push_back(
                    {item.from + "/" + file.path, folder + "/" + item.id() + ".part/" + file.path, have > 0});
        });
    });
    if (const Status good = reader.failure(); !good)
        return good.error();
    note(fmt::format("{} bytes are sent; {} of {} are there", missing.bytes, all - missing.bytes, all));
    return missing;
}

/// The file of the plan's model that travels; empty: none.
Result<std::string> modelFileOf(const std::string &planJson, const NeedsModelFile &needed)
{
    const auto document = plan::documentFromJson(planJson);
    if (!document)
        return document.error();
    const std::string &source = document->plan.modelSource;
    std::error_code unknown;
    if (!needed) {
        const std::string file = fs::path(source).lexically_normal().string();
        return file.starts_with(itemsFolder() + "/") && fs::is_regular_file(file, unknown) ? file : std::string();
    }
    const auto needs = needed(*document->subject.graph, source);
    if (!needs)
        return needs.error();
    return *needs ? fs::absolute(source, unknown).lexically_normal().string() : std::string();
}

} // namespace

Result<Load> loadOf(const agent::TrainRequest &request, const NeedsModelFile &needed)
{
    auto data = itemOf(request.settings.data);
    if (!data)
        return data.error();
    auto model = modelOf(request.planJson, needed);
    if (!model)
        return model.error();
    return Load{*std::move(data), *std::move(model)};
}

Result<std::optional<Item>> modelOf(const std::string &planJson, const NeedsModelFile &needed)
{
    const auto source = modelFileOf(planJson, needed);
    if (!source)
        return source.error();
    if (source->empty())
        return std::optional<Item>();
    auto model = modelItem(*source);
    if (!model)
        return model.error();
    return std::optional<Item>(*std::move(model));
}

Status sendLoad(const Target &target, const Load &load, const Note &note, const std::atomic<bool> &stop)
{
    const auto missing = missingAt(target, load, note, stop);
    if (!missing)
        return missing.error();
    if (!missing->copies.empty()) {
        auto noted = std::chrono::steady_clock::now();
        const auto tell = [&](std::int64_t bytes) {
            if (const auto now = std::chrono::steady_clock::now(); now - noted > kNoteEvery) {
                noted = now;
                note(fmt::format("{} of {} bytes are sent", std::min(bytes, missing->bytes), missing->bytes));
            }
        };
        if (const Status sent = send(target, missing->copies, stop, tell); !sent)
            return sent;
    }
    const auto kept = ask(target, itemsRequest("keep", load), kCheckSeconds, &stop);
    return kept ? Status() : kept.error();
}

std::string runRequest(const char *what, const agent::TrainRequest &request, const Load &load, const std::string &run)
{
    Json message{{"do", what},
                 {"plan", request.planJson},
                 {"settings", run::toJson({request.settings, {}})},
                 {"restarts", request.settings.restarts},
                 {"hung_seconds", request.settings.hungSeconds},
                 {"data", Json::parse(toJson(load.data))}};
    if (load.model)
        message["model"] = Json::parse(toJson(*load.model));
    if (!run.empty())
        message["run"] = run;
    return message.dump();
}

} // namespace planloom::remote
