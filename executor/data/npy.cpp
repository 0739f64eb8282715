// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "executor/data/readers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>

namespace planloom::data {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

template <class T>
double readAs(const char *at)
{
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
}

struct ElementType {
    std::string_view name; ///< as the header writes it, after the byte order
    std::size_t bytes;
    double (*read)(const char *at);
};

constexpr ElementType kTypes[] = {
    {"f4", 4, readAs<float>},        {"f8", 8, readAs<double>},        {"u1", 1, readAs<std::uint8_t>},
    {"b1", 1, readAs<std::uint8_t>}, {"i1", 1, readAs<std::int8_t>},   {"u2", 2, readAs<std::uint16_t>},
    {"i2", 2, readAs<std::int16_t>}, {"u4", 4, readAs<std::uint32_t>}, {"i4", 4, readAs<std::int32_t>},
    {"i8", 8, readAs<std::int64_t>},
};

/// The value of 'key': in the header's dictionary.
std::string_view valueOf(std::string_view header, std::string_view key)
{
    const std::size_t at = header.find(key);
    if (at == std::string_view::npos)
        return {};
    std::string_view rest = header.substr(at + key.size());
    const std::size_t value = rest.find_first_not_of("': ");
    return value == std::string_view::npos ? std::string_view() : rest.substr(value);
}

Status parseShape(std::string_view text, std::vector<std::int64_t> &shape)
{
    const Error malformed = badInput("has a malformed or empty shape; write the file again with numpy.save");
    const std::size_t end = text.find(')');
    if (text.empty() || text.front() != '(' || end == std::string_view::npos)
        return malformed;
    std::string_view inner = text.substr(1, end - 1);
    std::int64_t elements = 1;
    while (true) {
        const std::size_t digit = inner.find_first_of("0123456789");
        if (digit == std::string_view::npos)
            return {};
        inner.remove_prefix(digit);
        std::int64_t size = 0;
        const auto [next, error] = std::from_chars(inner.data(), inner.data() + inner.size(), size);
        if (error != std::errc() || size < 1 || __builtin_mul_overflow(elements, size, &elements))
            return malformed;
        shape.push_back(size);
        inner.remove_prefix(static_cast<std::size_t>(next - inner.data()));
    }
}

/// The header's dictionary and where the elements begin; empty if the file is cut short in it.
std::string_view headerOf(std::string_view contents, std::size_t &elementsAt)
{
    const std::size_t lengthBytes = contents.size() > 6 && contents[6] >= 2 ? 4 : 2;
    const std::size_t begin = 8 + lengthBytes;
    if (contents.size() < begin)
        return {};
    std::size_t length = 0;
    for (std::size_t i = 0; i < lengthBytes; ++i)
        length |= static_cast<std::size_t>(static_cast<unsigned char>(contents[8 + i])) << (8 * i);
    if (contents.size() - begin < length)
        return {};
    elementsAt = begin + length;
    return contents.substr(begin, length);
}

} // namespace

/// The format: magic, version, header length, a Python dictionary, then the elements.
Result<NpyArray> parseNpy(std::string_view contents, const std::string &path)
{
    std::size_t elementsAt = 0;
    const std::string_view header = headerOf(contents, elementsAt);
    if (header.empty())
        return badInput("ends within its header; the file is cut short").in(path);
    NpyArray array;
    const std::string_view descr = valueOf(header, "descr'");
    if (descr.size() < 3 || descr.front() == '>' || descr.front() == '[')
        return badInput("has elements of a type that is not read; save plain little-endian numbers (float32, float64, "
                        "uint8, integers)")
            .in(path);
    const std::string_view typeName = descr.substr(1, 2);
    const auto *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const ElementType &known) { return known.name == typeName; });
    if (type == std::end(kTypes))
        return badInput("has elements of type " + std::string(typeName) + "; save float32, float64, uint8 or integers")
            .in(path);
    array.type = type->name;
    array.width = type->bytes;
    array.read = type->read;
    if (!valueOf(header, "fortran_order'").starts_with("False"))
        return badInput("is in Fortran order; save numpy.ascontiguousarray(...) of it").in(path);
    if (const Status status = parseShape(valueOf(header, "shape'"), array.shape); !status)
        return status.error().in(path);
    array.elements = contents.substr(elementsAt);
    std::size_t wanted = array.width;
    for (const std::int64_t size : array.shape) {
        if (__builtin_mul_overflow(wanted, static_cast<std::size_t>(size), &wanted))
            return badInput("has a shape that no file can hold; write the file again").in(path);
    }
    if (array.elements.size() != wanted)
        return badInput("has " + std::to_string(array.elements.size()) + " bytes of elements where its header promises "
                        + std::to_string(wanted) + "; the file is cut short or damaged")
            .in(path);
    return array;
}

namespace {

/// The file beside the features with @p each numbers a sample.
Status readTargets(const std::string &path, std::int64_t rows, std::int64_t each, Table &table)
{
    const Result<std::string> contents = readFile(path);
    if (!contents)
        return contents.error();
    if (!looksLikeNpy(*contents))
        return badInput("is no .npy file; save the targets with numpy.save").in(path);
    const Result<NpyArray> array = parseNpy(*contents, path);
    if (!array)
        return array.error();
    if (table.targetColumns == 0 && array->shape.size() != 1)
        return badInput("must hold one label for each of the " + std::to_string(rows) + " samples, in one dimension")
            .in(path);
    if (array->shape.empty() || array->shape[0] != rows || array->count() != rows * each)
        return badInput("must hold " + std::to_string(each) + " number(s) for each of the " + std::to_string(rows)
                        + " samples")
            .in(path);
    if (table.targetColumns > 0 && array->type == "u1")
        return badInput("holds bytes, and the model's results are compared with it: save float32 in the results' scale")
            .in(path);
    std::vector<double> numbers(static_cast<std::size_t>(each));
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < each; ++i) {
            numbers[static_cast<std::size_t>(i)] = array->at(row * each + i);
            if (!std::isfinite(numbers[static_cast<std::size_t>(i)]))
                return badInput("sample " + std::to_string(row)
                                + " has a target that is no finite number; leave the sample "
                                  "out or mask it")
                    .in(path);
        }
        if (const Status added = table.addTargets(numbers); !added)
            return added.error().in(path);
    }
    return {};
}

/// Moves the features of row @p row, and what is behind them of its @p width numbers, into @p table.
Status appendRow(const NpyArray &array, std::int64_t row, std::int64_t width, Table &table)
{
    const float scale = array.type == "u1" ? 255.0F : 1.0F;
    std::vector<double> behind;
    for (std::int64_t column = 0; column < width; ++column) {
        const double value = array.at(row * width + column);
        if (!std::isfinite(value))
            return badInput("row " + std::to_string(row) + ", column " + std::to_string(column)
                            + " is not finite; clean the data");
        if (column < table.columns)
            table.features.push_back(static_cast<float>(value) / scale);
        else
            behind.push_back(value);
    }
    const Status added = behind.empty() ? Status() : table.addTargets(behind);
    return added ? added : badInput("row " + std::to_string(row) + ": " + added.error().message);
}

} // namespace

bool looksLikeNpy(std::string_view contents) { return contents.starts_with(kMagic); }

Result<Table> readNpy(std::string_view contents, const std::string &path, std::int64_t targetColumns)
{
    const Result<NpyArray> array = parseNpy(contents, path);
    if (!array)
        return array.error();
    if (array->shape.size() < 2)
        return badInput("has " + std::to_string(array->shape.size())
                        + " dimensions; the first must be the samples, the others their features")
            .in(path);
    const std::int64_t rows = array->shape[0];
    std::int64_t width = 1;
    for (std::size_t axis = 1; axis < array->shape.size(); ++axis)
        width *= array->shape[axis];

    Table table;
    table.targetColumns = targetColumns;
    const std::int64_t each = std::max<std::int64_t>(1, targetColumns);
    const std::string beside =
        std::filesystem::path(path).replace_extension(targetColumns > 0 ? ".targets.npy" : ".labels.npy").string();
    const bool separate = std::filesystem::exists(beside);
    if (separate) {
        if (const Status read = readTargets(beside, rows, each, table); !read)
            return read.error();
    } else if (array->shape.size() != 2 || width <= each) {
        return badInput(std::string("has no ") + (targetColumns > 0 ? "targets" : "labels") + "; put them into "
                        + beside + " or into the last " + (each == 1 ? "column" : std::to_string(each) + " columns")
                        + " of a two-dimensional array")
            .in(path);
    }
    table.columns = separate ? width : width - each;
    if (!separate)
        table.missing = beside;
    for (std::int64_t row = 0; row < rows; ++row) {
        if (const Status status = appendRow(*array, row, width, table); !status)
            return status.error().in(path);
    }
    return table;
}

} // namespace planloom::data
