// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/shape.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::weights {

/// One tensor of a file. Formats that exist in files but not in Planloom (float8, unsigned integers) have no type;
/// their bytes can be copied.
struct StoredTensor {
    std::string name;
    std::string format; ///< as in the file: "F32", "BF16"
    std::optional<graph::DType> type;
    std::vector<std::int64_t> sizes;
    std::int64_t begin = 0; ///< bytes, from the beginning of the file
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t bytes() const { return end - begin; }
};

/// Header of a safetensors file (github.com/huggingface/safetensors: 8 bytes of length, a JSON object, the
/// data).
struct Header {
    std::vector<StoredTensor> tensors; ///< in the order of their data
    std::map<std::string, std::string> metadata;
    [[nodiscard]] const StoredTensor *find(std::string_view name) const;
};

/// The safetensors name of a type, such as "BF16".
const char *formatName(graph::DType type);

/// Reads the header at the beginning of @p bytes, of a file that is @p fileSize long. Data must cover the rest of the
/// file without a hole or an overlap, each tensor of the length given by format and sizes, no name twice. Errors
/// (BadInput): the violated rule, with the tensor. Safe against hostile bytes; at most 100 MB of header, as the format
/// has it.
Result<Header> readHeader(std::string_view bytes, std::int64_t fileSize);

/// A file, mapped into memory. Thread contract: const after open(). A file that others make shorter while it is mapped
/// ends the program on access, as with any mapping.
class SafetensorsFile {
public:
    /// Errors: NotFound, Io, those of readHeader; each names @p path.
    static Result<SafetensorsFile> open(const std::string &path);
    SafetensorsFile(SafetensorsFile &&other) noexcept;
    SafetensorsFile &operator=(SafetensorsFile &&) = delete;
    ~SafetensorsFile();

    [[nodiscard]] const Header &header() const { return m_header; }
    [[nodiscard]] std::span<const std::byte> data(const StoredTensor &tensor) const;

private:
    SafetensorsFile() = default;
    Header m_header;
    const std::byte *m_bytes = nullptr;
    std::size_t m_size = 0;
};

/// The beginning of a file with these tensors, whose data follow in this order: length and JSON, padded so that data
/// begin at a multiple of 8. Fills in begin and end. Names are unique and formats are those of types.
std::string makeHeader(std::vector<StoredTensor> &tensors, const std::map<std::string, std::string> &metadata);

/// A tensor for writeSafetensors().
struct TensorToWrite {
    std::string name;
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> sizes;
    std::span<const std::byte> data;
};
/// Writes a file, whole or not at all. Errors: BadInput (a name twice, data of another size), Io.
Status writeSafetensors(const std::string &path, std::span<const TensorToWrite> tensors,
                        const std::map<std::string, std::string> &metadata);

} // namespace planloom::weights
