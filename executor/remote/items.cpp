// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/items.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;

Result<ItemFile> fileOf(const fs::path &path, const std::string &name)
{
    if (!isSafePath(name))
        return badInput(
                   "the name cannot travel to another machine; rename it with letters, digits, spaces and ._-+@=,~")
            .in(path.string());
    auto hash = sha256OfFile(path);
    if (!hash)
        return hash.error();
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error)
        return ioError("cannot be read: " + error.message()).in(path.string());
    return ItemFile{name, *std::move(hash), static_cast<std::int64_t>(bytes)};
}

/// Adds @p path to the item under @p name.
Status addTo(Item &item, const fs::path &path, const std::string &name)
{
    if (item.files.size() >= kMostFiles)
        return badInput(fmt::format("holds more than {} files; pack them", kMostFiles)).in(item.from);
    auto file = fileOf(path, name);
    if (!file)
        return file.error();
    item.files.push_back(*std::move(file));
    return {};
}

bool isModelsPart(const fs::path &path, const std::string &model, bool onnx)
{
    const std::string name = path.filename().string();
    if (onnx)
        return name.size() > 2 && model.find(name) != std::string::npos;
    return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

} // namespace

std::string Item::id() const
{
    std::string list = folder ? "folder\n" : "file\n";
    for (const ItemFile &file : files)
        list += fmt::format("{} {} {}\n", file.sha256, file.bytes, file.path);
    return sha256(list);
}

std::int64_t Item::bytes() const
{
    std::int64_t sum = 0;
    for (const ItemFile &file : files)
        sum += file.bytes;
    return sum;
}

bool isSafePath(std::string_view path)
{
    constexpr std::size_t kLongest = 1000, kLongestPart = 200;
    constexpr std::string_view kOthers = " ._-+@=,~";
    if (path.empty() || path.size() > kLongest)
        return false;
    while (true) {
        const auto end = std::min(path.find('/'), path.size());
        const std::string_view part = path.substr(0, end);
        const bool plain = std::ranges::all_of(part, [&](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                || kOthers.find(c) != std::string_view::npos;
        });
        if (!plain || part.empty() || part.size() > kLongestPart || part.front() == '.' || part.front() == '-'
            || part.front() == ' ')
            return false;
        if (end == path.size())
            return true;
        path.remove_prefix(end + 1);
    }
}

bool isHash(std::string_view text)
{
    constexpr std::size_t kDigits = 64;
    return text.size() == kDigits
        && std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<Item> itemOf(const std::string &path)
{
    std::error_code error;
    Item item{path, fs::is_directory(path, error), {}};
    if (!item.folder) {
        const fs::path file(path);
        item.from = file.parent_path().string();
        if (const Status added = addTo(item, file, file.filename().string()); !added)
            return added.error();
        return item;
    }
    for (auto at = fs::recursive_directory_iterator(path, error); !error && at != fs::recursive_directory_iterator();
         at.increment(error)) {
        std::error_code unknown;
        if (!at->is_regular_file(unknown))
            continue;
        if (const Status added = addTo(item, at->path(), at->path().lexically_relative(path).string()); !added)
            return added.error();
    }
    if (error)
        return ioError("cannot be read: " + error.message()).in(path);
    if (item.files.empty())
        return badInput("holds no file").in(path);
    std::ranges::sort(item.files, {}, &ItemFile::path);
    return item;
}

Result<Item> modelItem(const std::string &file)
{
    auto item = itemOf(file);
    if (!item)
        return item;
    const bool onnx = file.ends_with(".onnx");
    constexpr std::int64_t kLargest = std::int64_t{4} << 30;
    const auto model = onnx ? readFile(file, kLargest) : Result<std::string>(std::string());
    if (!model)
        return model.error();
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(item->from, error)) {
        std::error_code unknown;
        const std::string name = entry.path().filename().string();
        if (name == item->entry() || !entry.is_regular_file(unknown) || !isModelsPart(entry.path(), *model, onnx))
            continue;
        if (const Status added = addTo(*item, entry.path(), name); !added)
            return added.error();
    }
    // The model stays the first one: it is the entry.
    std::sort(item->files.begin() + 1, item->files.end(),
              [](const ItemFile &a, const ItemFile &b) { return a.path < b.path; });
    return item;
}

std::string toJson(const Item &item)
{
    nlohmann::json files = nlohmann::json::array();
    for (const ItemFile &file : item.files)
        files.push_back({{"path", file.path}, {"sha256", file.sha256}, {"bytes", file.bytes}});
    return nlohmann::json{{"folder", item.folder}, {"files", std::move(files)}}.dump();
}

Result<Item> itemFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    Item item;
    item.folder = reader.flag("folder", true);
    reader.list("files", [&](JsonReader &entry) {
        ItemFile file{entry.text("path"), entry.text("sha256"), entry.integer("bytes", 0)};
        if (!isSafePath(file.path))
            entry.fail("path", "leads out of the folder, or has characters that are not allowed");
        if (!isHash(file.sha256))
            entry.fail("sha256", "is no hash");
        item.files.push_back(std::move(file));
    });
    if (const Status good = reader.failure(text); !good)
        return good.error();
    if (item.files.empty() || item.files.size() > kMostFiles)
        return badInput("an item has no files, or too many");
    return item;
}

} // namespace planloom::remote
