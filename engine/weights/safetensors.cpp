// SPDX-License-Identifier: Apache-2.0
#include "engine/weights/safetensors.h"

#include "engine/base/files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace planloom::weights {
namespace {

using graph::DType;
using nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMostHeader = 100'000'000;
constexpr const char *kMetadata = "__metadata__";

struct Format {
    const char *name;
    std::int64_t bytes;
    std::optional<DType> type;
};

constexpr std::array<Format, 16> kFormats{{
    {"F32", 4, DType::F32},
    {"F16", 2, DType::F16},
    {"BF16", 2, DType::BF16},
    {"F64", 8, DType::F64},
    {"I64", 8, DType::I64},
    {"I32", 4, DType::I32},
    {"I8", 1, DType::I8},
    {"U8", 1, DType::U8},
    {"BOOL", 1, DType::Bool},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
}};

const Format *findFormat(std::string_view name)
{
    const auto *found =
        std::find_if(kFormats.begin(), kFormats.end(), [&](const Format &format) { return name == format.name; });
    return found == kFormats.end() ? nullptr : found;
}

/// Parses the header's JSON, which must not name anything twice in one object; the document keeps only the last of two.
Result<json> parseHeader(std::string_view text)
{
    constexpr int kDeepest = 4;
    std::vector<std::set<std::string>> names;
    std::string twice;
    bool deep = false;
    const auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
        if (depth > kDeepest)
            deep = true;
        if (event == json::parse_event_t::object_start)
            names.emplace_back();
        else if (event == json::parse_event_t::object_end)
            names.pop_back();
        else if (event == json::parse_event_t::key
                 && !names.back().insert(parsed.get_ref<const std::string &>()).second)
            twice = parsed.get<std::string>();
        return !deep;
    };
    json document = json::parse(text.begin(), text.end(), watch, false);
    if (deep)
        return badInput("the header is nested too deeply; this is not a safetensors file");
    if (document.is_discarded() || !document.is_object())
        return badInput("the header is not a JSON object; the file is damaged or not safetensors");
    if (!twice.empty())
        return badInput(fmt::format("the header has '{}' twice; write the file again", twice));
    return document;
}

Error wrongTensor(const std::string &name, const std::string &what)
{
    return badInput(fmt::format("tensor '{}' {}; the file is damaged", name, what));
}

std::optional<std::int64_t> count(const json &value)
{
    if (!value.is_number_unsigned()
        || value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return std::nullopt;
    return static_cast<std::int64_t>(value.get<std::uint64_t>());
}

/// Bytes of a tensor of @p sizes, or nothing where that is no number of this machine.
std::optional<std::int64_t> bytesOf(const std::vector<std::int64_t> &sizes, std::int64_t elementBytes)
{
    std::int64_t bytes = elementBytes;
    for (const std::int64_t size : sizes)
        if (__builtin_mul_overflow(bytes, size, &bytes))
            return std::nullopt;
    return bytes;
}

/// One entry of the header; offsets still count from the first byte of data.
Result<StoredTensor> readTensor(const std::string &name, const json &entry)
{
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape")
        || !entry.contains("data_offsets"))
        return wrongTensor(name, "does not have exactly dtype, shape and data_offsets");
    const json &dtype = entry["dtype"];
    const json &shape = entry["shape"];
    const json &offsets = entry["data_offsets"];
    const Format *format = dtype.is_string() ? findFormat(dtype.get_ref<const std::string &>()) : nullptr;
    if (format == nullptr)
        return unsupported(
            fmt::format("tensor '{}' has the data type {}, which is not known; convert it to F32, F16 or BF16", name,
                        dtype.dump(-1, ' ', true, json::error_handler_t::replace)));
    StoredTensor tensor{name, format->name, format->type, {}, 0, 0};
    constexpr std::size_t kMostAxes = 32;
    if (!shape.is_array() || shape.size() > kMostAxes)
        return wrongTensor(name, "has no list of sizes");
    for (const json &size : shape) {
        const auto value = count(size);
        if (!value)
            return wrongTensor(name, "has a size that is not a whole number");
        tensor.sizes.push_back(*value);
    }
    const auto begin = offsets.is_array() && offsets.size() == 2 ? count(offsets[0]) : std::nullopt;
    const auto end = begin ? count(offsets[1]) : std::nullopt;
    if (!end || *begin > *end)
        return wrongTensor(name, "has no valid data_offsets");
    if (bytesOf(tensor.sizes, format->bytes) != *end - *begin)
        return wrongTensor(
            name, fmt::format("of type {} has sizes that do not make its {} bytes", tensor.format, *end - *begin));
    tensor.begin = *begin;
    tensor.end = *end;
    return tensor;
}

Status readMetadata(const json &entry, Header &header)
{
    if (!entry.is_object())
        return badInput("__metadata__ is not an object of texts; the file is damaged");
    for (const auto &[key, value] : entry.items()) {
        if (!value.is_string())
            return badInput(fmt::format("__metadata__ '{}' is not a text; the file is damaged", key));
        header.metadata[key] = value.get<std::string>();
    }
    return {};
}

/// Each tensor's data begin where those before end, and the last ones end with the file.
Status checkCover(const std::vector<StoredTensor> &tensors, std::int64_t dataBytes)
{
    std::int64_t at = 0;
    for (const StoredTensor &tensor : tensors) {
        if (tensor.begin != at)
            return wrongTensor(
                tensor.name,
                fmt::format("begins at byte {} of the data where {} is next: there is a hole or an overlap",
                            tensor.begin, at));
        at = tensor.end;
    }
    if (at != dataBytes)
        return badInput(fmt::format(
            "has {} bytes of data where its header describes {}; the file is damaged or cut short", dataBytes, at));
    return {};
}

std::string why() { return std::strerror(errno); }

} // namespace

const StoredTensor *Header::find(std::string_view name) const
{
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor &tensor) { return tensor.name == name; });
    return found == tensors.end() ? nullptr : &*found;
}

const char *formatName(DType type)
{
    return std::find_if(kFormats.begin(), kFormats.end(), [&](const Format &format) { return format.type == type; })
        ->name;
}

Result<Header> readHeader(std::string_view bytes, std::int64_t fileSize)
{
    if (fileSize < kLengthBytes + 2 || std::ssize(bytes) < kLengthBytes)
        return badInput("is too short for a safetensors file");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > static_cast<std::uint64_t>(kMostHeader)
        || length > static_cast<std::uint64_t>(std::min<std::int64_t>(fileSize, std::ssize(bytes)) - kLengthBytes))
        return badInput(fmt::format(
            "declares a header of {} bytes, which is impossible; the file is damaged or not safetensors", length));
    const std::string_view text = bytes.substr(kLengthBytes, length);
    if (!text.starts_with('{'))
        return badInput("the header does not begin with '{'; this is not a safetensors file");
    const auto document = parseHeader(text);
    if (!document)
        return document.error();
    Header header;
    for (const auto &[name, entry] : document->items()) {
        if (name == kMetadata) {
            if (Status read = readMetadata(entry, header); !read)
                return read.error();
            continue;
        }
        auto tensor = readTensor(name, entry);
        if (!tensor)
            return tensor.error();
        header.tensors.push_back(*std::move(tensor));
    }
    std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor &a, const StoredTensor &b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    const std::int64_t dataBegin = kLengthBytes + static_cast<std::int64_t>(length);
    if (Status covered = checkCover(header.tensors, fileSize - dataBegin); !covered)
        return covered.error();
    for (StoredTensor &tensor : header.tensors) {
        tensor.begin += dataBegin;
        tensor.end += dataBegin;
    }
    return header;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path)
{
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return (errno == ENOENT ? notFound("does not exist") : ioError("cannot be opened: " + why())).in(path);
    struct stat info {};
    const bool known = ::fstat(fd, &info) == 0;
    if (!known || !S_ISREG(info.st_mode) || info.st_size < kLengthBytes) {
        ::close(fd);
        return badInput("is too short for a safetensors file, or no file").in(path);
    }
    SafetensorsFile file;
    void *mapped = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    const std::string reason = why();
    ::close(fd);
    if (mapped == MAP_FAILED)
        return ioError("cannot be mapped into memory: " + reason).in(path);
    file.m_bytes = static_cast<const std::byte *>(mapped);
    file.m_size = static_cast<std::size_t>(info.st_size);
    auto header = readHeader({reinterpret_cast<const char *>(file.m_bytes), file.m_size}, info.st_size);
    if (!header)
        return header.error().in(path);
    file.m_header = *std::move(header);
    return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile &&other) noexcept
    : m_header(std::move(other.m_header)),
      m_bytes(std::exchange(other.m_bytes, nullptr)),
      m_size(std::exchange(other.m_size, 0))
{
}

SafetensorsFile::~SafetensorsFile()
{
    if (m_bytes != nullptr)
        ::munmap(const_cast<std::byte *>(m_bytes), m_size);
}

std::span<const std::byte> SafetensorsFile::data(const StoredTensor &tensor) const
{
    return {m_bytes + tensor.begin, static_cast<std::size_t>(tensor.bytes())};
}

std::string makeHeader(std::vector<StoredTensor> &tensors, const std::map<std::string, std::string> &metadata)
{
    nlohmann::ordered_json document = nlohmann::ordered_json::object();
    if (!metadata.empty())
        document[kMetadata] = metadata;
    std::int64_t at = 0;
    for (StoredTensor &tensor : tensors) {
        tensor.begin = at;
        tensor.end = at = at + *bytesOf(tensor.sizes, findFormat(tensor.format)->bytes);
        document[tensor.name] = {{"dtype", tensor.format},
                                 {"shape", tensor.sizes},
                                 {"data_offsets", {tensor.begin, tensor.end}}};
    }
    std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
    constexpr std::size_t kAlignment = 8;
    text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
    const std::uint64_t length = text.size();
    std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
    bytes += text;
    for (StoredTensor &tensor : tensors) {
        tensor.begin += std::ssize(bytes);
        tensor.end += std::ssize(bytes);
    }
    return bytes;
}

Status writeSafetensors(const std::string &path, std::span<const TensorToWrite> tensors,
                        const std::map<std::string, std::string> &metadata)
{
    std::vector<StoredTensor> stored;
    std::set<std::string_view> names{kMetadata};
    for (const TensorToWrite &tensor : tensors) {
        if (!names.insert(tensor.name).second)
            return badInput(fmt::format("two tensors are called '{}'; rename one", tensor.name)).in(path);
        if (bytesOf(tensor.sizes, graph::sizeOf(tensor.type)) != std::ssize(tensor.data))
            return badInput(fmt::format("tensor '{}' has {} bytes, which its sizes do not make", tensor.name,
                                        tensor.data.size()))
                .in(path);
        stored.push_back({tensor.name, formatName(tensor.type), tensor.type, tensor.sizes, 0, 0});
    }
    auto file = AtomicFile::create(path);
    if (!file)
        return file.error();
    if (Status written = file->write(makeHeader(stored, metadata)); !written)
        return written;
    for (const TensorToWrite &tensor : tensors)
        if (Status written = file->write({reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size()});
            !written)
            return written;
    return file->commit();
}

} // namespace planloom::weights
