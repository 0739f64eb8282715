// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/claimed_operators.h"
#include "engine/weights/convert.h"
#include "executor/conformance/forward_machine.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace planloom::conformance {

namespace fs = std::filesystem;

inline std::string bytesOf(const fs::path &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder with model.onnx and test_data_set_N/{input,output}_M.pb.
struct BackendCase {
    std::string name; ///< "node/test_abs"
    fs::path folder;
    import::OnnxOutline outline;
    std::string outOfScope; ///< why it is not run; empty: it is
};

/// Tests of claimed operators that are left out, each with the reason.
inline const std::map<std::string, std::string, std::less<>> &leftOut()
{
    const std::string random = "expects the numbers that numpy's generator drew";
    const std::string cut = "expects bfloat16 to be cut off; it is rounded to nearest here";
    static const std::map<std::string, std::string, std::less<>> cases = {
        {"test_cast_FLOAT_to_BFLOAT16", cut},
        {"test_castlike_FLOAT_to_BFLOAT16_expanded", cut},
        {"test_training_dropout", random},
        {"test_training_dropout_default", random},
        {"test_training_dropout_default_mask", random},
        {"test_training_dropout_mask", random},
    };
    return cases;
}

/// Why a file with this outline is not run; empty if it is.
inline std::string scopeOf(const std::string &name, const import::OnnxOutline &outline)
{
    for (const std::string &type : outline.operators)
        if (!import::findClaim(type))
            return "operator not claimed";
    if (!outline.strangeType.empty())
        return "type " + outline.strangeType;
    if (outline.opset == 0)
        return "no operator of ONNX's own";
    const auto found = leftOut().find(name.substr(name.find('/') + 1));
    return found == leftOut().end() ? std::string() : found->second;
}

/// All cases beneath @p root, sorted by name.
inline std::vector<BackendCase> casesBeneath(const fs::path &root)
{
    std::vector<BackendCase> cases;
    for (const char *family : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
        if (!fs::is_directory(root / family))
            continue;
        for (const auto &entry : fs::directory_iterator(root / family)) {
            if (!fs::exists(entry.path() / "model.onnx"))
                continue;
            BackendCase one{family + std::string("/") + entry.path().filename().string(), entry.path(), {}, {}};
            auto outline = import::outlineOf(bytesOf(entry.path() / "model.onnx"));
            if (outline)
                one.outline = *std::move(outline);
            one.outOfScope = outline ? scopeOf(one.name, one.outline) : std::string();
            cases.push_back(std::move(one));
        }
    }
    std::sort(cases.begin(), cases.end(), [](const auto &a, const auto &b) { return a.name < b.name; });
    return cases;
}

/// input_0.pb, input_1.pb ... as far as there are any. Error: the first that cannot be read.
inline Result<std::vector<TensorFile>> tensorsOf(const fs::path &folder, const char *stem)
{
    std::vector<TensorFile> tensors;
    for (int i = 0; fs::exists(folder / (stem + std::to_string(i) + ".pb")); ++i) {
        const fs::path path = folder / (stem + std::to_string(i) + ".pb");
        auto tensor = import::readTensorFile(bytesOf(path), path.filename().string());
        if (!tensor)
            return tensor.error();
        tensors.push_back(*std::move(tensor));
    }
    return tensors;
}

template <class T>
double loaded(const std::byte *at)
{
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
}

inline double elementOf(const TensorFile &tensor, std::size_t i)
{
    using graph::DType;
    const std::byte *at = tensor.data.data() + i * static_cast<std::size_t>(graph::sizeOf(tensor.type));
    std::uint16_t bits = 0;
    if (graph::sizeOf(tensor.type) == 2)
        std::memcpy(&bits, at, sizeof bits);
    switch (tensor.type) {
    case DType::F32: return loaded<float>(at);
    case DType::F64: return loaded<double>(at);
    case DType::F16: return static_cast<double>(weights::fromHalf(bits));
    case DType::BF16: return static_cast<double>(weights::fromBFloat16(bits));
    case DType::I64: return loaded<std::int64_t>(at);
    case DType::I32: return loaded<std::int32_t>(at);
    case DType::I8: return loaded<std::int8_t>(at);
    default: return loaded<std::uint8_t>(at);
    }
}

/// ONNX's own tolerances: relative 1e-3 and absolute 1e-7; integers and truth values exactly. Empty if alike.
inline std::string differenceOf(const TensorFile &got, const TensorFile &expected)
{
    using graph::DType;
    if (got.type != expected.type)
        return std::string("is ") + graph::name(got.type) + ", expected " + graph::name(expected.type);
    if (got.dims != expected.dims)
        return "is " + graph::Shape::of(got.dims).text() + ", expected " + graph::Shape::of(expected.dims).text();
    const bool floating =
        got.type == DType::F32 || got.type == DType::F64 || got.type == DType::F16 || got.type == DType::BF16;
    if (!floating)
        return got.data == expected.data ? std::string() : "differs";
    const std::size_t count = got.data.size() / static_cast<std::size_t>(graph::sizeOf(got.type));
    for (std::size_t i = 0; i < count; ++i) {
        const double a = elementOf(got, i);
        const double b = elementOf(expected, i);
        if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b))
            continue;
        return "is " + std::to_string(a) + " at element " + std::to_string(i) + ", expected " + std::to_string(b);
    }
    return {};
}

/// Small integers are counts, axes and shapes more often than data.
inline bool maybeKnown(const TensorFile &tensor)
{
    return (tensor.type == graph::DType::I64 || tensor.type == graph::DType::I32) && tensor.data.size() <= 512;
}

/// Reads the model for these inputs: what operators want as constants is known to the importer, and all small integers
/// where that is not enough.
inline Result<import::Model> modelFor(const BackendCase &one, const std::vector<TensorFile> &inputs)
{
    std::vector<import::FedInput> fed;
    const auto &wanted = one.outline.constants;
    for (const TensorFile &input : inputs)
        fed.push_back({input, std::find(wanted.begin(), wanted.end(), input.name) != wanted.end()});
    const std::string bytes = bytesOf(one.folder / "model.onnx");
    auto model = import::readOnnxExactly(bytes, one.name, one.folder.string(), fed);
    if (model || model.error().code != ErrorCode::Unsupported)
        return model;
    for (import::FedInput &input : fed)
        input.known = input.known || maybeKnown(input.tensor);
    return import::readOnnxExactly(bytes, one.name, one.folder.string(), fed);
}

/// The mismatch of one data set; empty if none.
inline std::string problemWith(const BackendCase &one, const fs::path &data)
{
    auto inputs = tensorsOf(data, "input_");
    auto expected = tensorsOf(data, "output_");
    if (!inputs || !expected)
        return inputs ? expected.error().text() : inputs.error().text();
    if (inputs->size() > one.outline.inputs.size())
        return "has more inputs than its model";
    for (std::size_t i = 0; i < inputs->size(); ++i)
        (*inputs)[i].name = one.outline.inputs[i];
    const auto model = modelFor(one, *inputs);
    if (!model)
        return model.error().text();
    ForwardMachine machine(*model->graph);
    if (const std::string problem = machine.run(*inputs); !problem.empty())
        return problem;
    const auto outputs = model->graph->outputs();
    if (outputs.size() != expected->size())
        return "makes " + std::to_string(outputs.size()) + " outputs, expected " + std::to_string(expected->size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (const std::string wrong = differenceOf(machine.get(outputs[i]), (*expected)[i]); !wrong.empty())
            return "output " + std::to_string(i) + " " + wrong;
    return {};
}

/// The mismatch of a case; empty if none.
inline std::string problemWith(const BackendCase &one)
{
    int sets = 0;
    for (const auto &entry : fs::directory_iterator(one.folder)) {
        if (!entry.is_directory() || entry.path().filename().string().rfind("test_data_set_", 0) != 0)
            continue;
        ++sets;
        if (const std::string problem = problemWith(one, entry.path()); !problem.empty())
            return problem;
    }
    return sets > 0 ? std::string() : "has no data";
}

} // namespace planloom::conformance
