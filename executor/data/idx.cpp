// SPDX-License-Identifier: Apache-2.0
#include "executor/data/readers.h"

#include <filesystem>
#include <optional>

namespace planloom::data {

namespace {

/// An IDX file (LeCun's MNIST format): two zero bytes, the element type, the number of dimensions, each dimension as a
/// big-endian 32-bit number, then the elements.
struct Idx {
    std::vector<std::int64_t> shape;
    std::string_view elements;
};

constexpr unsigned char kUnsignedByte = 0x08;

Result<Idx> parseIdx(std::string_view contents, const std::string &path)
{
    if (!looksLikeIdx(contents))
        return badInput("is no IDX file of one to four dimensions").in(path);
    if (static_cast<unsigned char>(contents[2]) != kUnsignedByte)
        return badInput("is an IDX file of a type other than unsigned bytes; convert it to unsigned bytes").in(path);
    const auto dimensions = static_cast<std::size_t>(contents[3]);
    const std::size_t header = 4 + 4 * dimensions;
    if (contents.size() < header)
        return badInput("ends within its header; the file is cut short").in(path);
    Idx idx;
    std::size_t wanted = 1;
    bool overflow = false;
    for (std::size_t d = 0; d < dimensions; ++d) {
        std::size_t size = 0;
        for (std::size_t byte = 0; byte < 4; ++byte)
            size = size << 8 | static_cast<unsigned char>(contents[4 + 4 * d + byte]);
        if (size == 0)
            return badInput("is an empty IDX file: one of its dimensions is 0").in(path);
        idx.shape.push_back(static_cast<std::int64_t>(size));
        overflow = __builtin_mul_overflow(wanted, size, &wanted) || overflow;
    }
    idx.elements = contents.substr(header);
    if (overflow || idx.elements.size() != wanted)
        return badInput("has " + std::to_string(idx.elements.size()) + " bytes of elements where its header promises "
                        + (overflow ? std::string("more than a file can hold") : std::to_string(wanted))
                        + "; the file is cut short or damaged")
            .in(path);
    return idx;
}

/// "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz"; none if the name has no "images".
std::optional<std::string> labelPathFor(const std::string &path)
{
    const std::filesystem::path whole(path);
    std::string name = whole.filename().string();
    const std::size_t images = name.find("images");
    if (images == std::string::npos)
        return std::nullopt;
    name.replace(images, 6, "labels");
    if (const std::size_t kind = name.find("idx3"); kind != std::string::npos)
        name.replace(kind, 4, "idx1");
    return (whole.parent_path() / name).string();
}

} // namespace

bool looksLikeIdx(std::string_view contents)
{
    return contents.size() >= 4 && contents[0] == 0 && contents[1] == 0 && contents[2] >= 0x08 && contents[2] <= 0x0E
        && contents[3] >= 1 && contents[3] <= 4;
}

Result<Table> readIdx(std::string_view contents, const std::string &path)
{
    const Result<Idx> images = parseIdx(contents, path);
    if (!images)
        return images.error();
    const std::optional<std::string> labelPath = labelPathFor(path);
    if (images->shape.size() < 2 || !labelPath)
        return badInput("is an IDX file, but not one of images with labels beside it; name it ...images..., and its "
                        "labels the same with \"labels\" for \"images\"")
            .in(path);
    const Result<std::string> labelContents = readMaybeCompressed(*labelPath);
    if (!labelContents)
        return labelContents.error();
    if (!looksLikeIdx(*labelContents))
        return badInput("is no IDX file; it must hold the labels of " + path).in(*labelPath);
    const Result<Idx> labels = parseIdx(*labelContents, *labelPath);
    if (!labels)
        return labels.error();
    if (labels->shape.size() != 1 || labels->shape[0] != images->shape[0])
        return badInput("must hold one label for each of the " + std::to_string(images->shape[0])
                        + " images, in one dimension")
            .in(*labelPath);

    Table table;
    table.columns = images->shape[0] == 0 ? 0 : static_cast<std::int64_t>(images->elements.size()) / images->shape[0];
    table.features.reserve(images->elements.size());
    for (const char pixel : images->elements)
        table.features.push_back(static_cast<float>(static_cast<unsigned char>(pixel)) / 255.0F);
    for (const char label : labels->elements)
        table.labels.push_back(static_cast<unsigned char>(label));
    return table;
}

} // namespace planloom::data
