// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::remote {

/// A file of an item.
struct ItemFile {
    std::string path;   ///< relative to the item, isSafePath()
    std::string sha256; ///< of its bytes
    std::int64_t bytes = 0;
};

/// A file or a folder that travels to another machine once: what a run is given. Equal contents under equal names have
/// equal ids, whatever they lie in.
struct Item {
    std::string from; ///< absolute folder here
    bool folder = true;
    std::vector<ItemFile> files; ///< sorted by path; one where it is no folder

    /// Hash of the list of files.
    [[nodiscard]] std::string id() const;
    [[nodiscard]] std::int64_t bytes() const;
    /// What is named over there, beneath the item's folder: "" for a folder, else the file.
    [[nodiscard]] std::string entry() const { return folder ? std::string() : files.front().path; }
};

/// A relative path that stays where it is put: parts of letters, digits, spaces and "._-+@=,~", none of them hidden,
/// "..", or longer than 200 characters; at most 1,000 in all.
bool isSafePath(std::string_view path);
/// 64 lower-case hexadecimal digits.
bool isHash(std::string_view text);

/// The regular file @p path, or all regular files beneath a folder. Links are followed to files, not to folders. Reads
/// every byte once. Errors: NotFound, Io, BadInput (a name that cannot travel, more than 10,000 files, an empty
/// folder).
Result<Item> itemOf(const std::string &path);
/// The file of a model and what it names beside itself: weights of .onnx files (those in its folder whose names are in
/// it), the .safetensors of a config.json. Errors: those of itemOf().
Result<Item> modelItem(const std::string &file);

/// As JSON, and back, from anyone. Error: BadInput (unsafe paths, no files, hashes that are none).
std::string toJson(const Item &item);
Result<Item> itemFromJson(std::string_view text);

} // namespace planloom::remote
