// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/node.h"

#include "engine/import/onnx/tensor.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>

namespace planloom::import {
namespace {

using graph::DType;
using Ints = std::vector<std::int64_t>;

/// One node on its way into our vocabulary.
struct Work {
    const onnx::NodeProto &node;
    const std::vector<NodeInput> &in;
    const Reading &reading;
    NormalNode &out;

    [[nodiscard]] std::string label() const { return fmt::format("operator '{}' ({})", node.name(), node.op_type()); }
    [[nodiscard]] bool given(std::size_t i) const { return i < in.size() && !in[i].name.empty(); }
    void set(const std::string &key, graph::Attribute value) const { out.op.attributes[key] = std::move(value); }
    void keepInputs(std::size_t count) const { out.inputs.resize(std::min(count, out.inputs.size())); }

    /// A constant input as integers. Error if it is computed at run time.
    [[nodiscard]] Result<Ints> ints(std::size_t i, const char *what) const
    {
        if (!in[i].known)
            return unsupported(fmt::format("{}: its {} are computed at run time; export the model with fixed {}",
                                           label(), what, what));
        return in[i].known->integers();
    }

    /// Moves a constant input into an integer-list attribute, if it is there.
    [[nodiscard]] Status move(std::size_t i, const char *key) const
    {
        if (!given(i))
            return {};
        const auto values = ints(i, key);
        if (!values)
            return values.error();
        set(key, *values);
        return {};
    }
};

using Rule = std::function<Status(const Work &)>;

/// Names in one text, separated by commas.
std::string joined(const onnx::AttributeProto &attribute)
{
    std::string all;
    for (const std::string &one : attribute.strings())
        all += (all.empty() ? "" : ",") + one;
    return all;
}

void copyAttributes(const onnx::NodeProto &node, graph::Attributes &attributes)
{
    for (const auto &attribute : node.attribute()) {
        switch (attribute.type()) {
        case onnx::AttributeProto::INT: attributes[attribute.name()] = static_cast<std::int64_t>(attribute.i()); break;
        case onnx::AttributeProto::FLOAT: attributes[attribute.name()] = static_cast<double>(attribute.f()); break;
        case onnx::AttributeProto::STRING: attributes[attribute.name()] = attribute.s(); break;
        case onnx::AttributeProto::INTS:
            attributes[attribute.name()] = Ints(attribute.ints().begin(), attribute.ints().end());
            break;
        case onnx::AttributeProto::FLOATS:
            attributes[attribute.name()] = std::vector<double>(attribute.floats().begin(), attribute.floats().end());
            break;
        case onnx::AttributeProto::STRINGS: attributes[attribute.name()] = joined(attribute); break;
        default: break; // tensors and graphs have rules of their own
        }
    }
}

Status constant(const Work &work)
{
    for (const auto &attribute : work.node.attribute()) {
        if (attribute.name() == "value_int")
            work.out.constant = KnownValue::scalar(DType::I64, static_cast<double>(attribute.i()));
        else if (attribute.name() == "value_float")
            work.out.constant = KnownValue::scalar(DType::F32, attribute.f());
        else if (attribute.name() == "value_ints")
            work.out.constant = KnownValue::ints(Ints(attribute.ints().begin(), attribute.ints().end()));
        else if (attribute.name() == "value") {
            const auto stored = readTensor(attribute.t(), {}, work.reading.floats());
            if (!stored)
                return stored.error();
            work.out.constant = knownValue(*stored);
        }
    }
    if (!work.out.constant)
        return badInput(work.label() + " has no value that can be read; the file is damaged");
    return {};
}

/// Splits sizes that may hold multiples of the batch into `shape` and `batch_axis`.
Status setSymbolicShape(const Work &work, const KnownValue &target)
{
    Ints shape = target.integers();
    std::int64_t batchAxis = -1;
    for (std::size_t i = 0; i < target.elements.size(); ++i) {
        if (!target.elements[i].batch)
            continue;
        if (batchAxis >= 0)
            return unsupported(work.label() + " makes a shape with the batch in two dimensions");
        batchAxis = static_cast<std::int64_t>(i);
    }
    work.set("shape", shape);
    work.set("batch_axis", batchAxis);
    return {};
}

std::int64_t productOf(const Ints &values)
{
    std::int64_t total = 1;
    for (const std::int64_t value : values)
        if (__builtin_mul_overflow(total, value, &total))
            return -1;
    return total;
}

/// A file exported for a fixed number of samples has that number inside the target of a reshape: find where.
void findBakedBatch(const Work &work, Ints &shape, std::int64_t &batchAxis)
{
    const graph::TensorInfo *data = work.in[0].info;
    if (batchAxis >= 0 || work.reading.batchSize <= 0 || !data || !data->shape.batched() || shape.empty())
        return;
    const bool keepsBatch =
        std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d == 0; }) && data->shape.batchLeading();
    if (keepsBatch && shape[0] == 0)
        return;
    const bool open = std::find(shape.begin(), shape.end(), -1) != shape.end();
    if (!open && productOf(shape) != data->shape.elements(work.reading.batchSize))
        return;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] <= 0 || shape[i] % work.reading.batchSize != 0)
            continue;
        // With an open dimension only a leading size equal to the batch can be told from any other.
        if (open && !(i == 0 && shape[0] == work.reading.batchSize))
            return;
        shape[i] /= work.reading.batchSize;
        batchAxis = static_cast<std::int64_t>(i);
        return;
    }
}

Status reshape(const Work &work)
{
    if (work.given(1)) {
        if (!work.in[1].known)
            return unsupported(work.label()
                               + ": its target shape depends on the data; export the model with fixed sizes");
        if (const Status set = setSymbolicShape(work, *work.in[1].known); !set)
            return set;
    }
    Ints shape = work.out.op.integers("shape");
    std::int64_t batchAxis = work.out.op.integer("batch_axis", -1);
    if (work.given(0))
        findBakedBatch(work, shape, batchAxis);
    work.set("shape", shape);
    work.set("batch_axis", batchAxis);
    work.keepInputs(1);
    return {};
}

Status expand(const Work &work)
{
    if (!work.given(1) || !work.in[1].known)
        return unsupported(work.label() + ": its target shape depends on the data; export the model with fixed sizes");
    if (const Status set = setSymbolicShape(work, *work.in[1].known); !set)
        return set;
    work.keepInputs(1);
    return {};
}

Status constantOfShape(const Work &work)
{
    if (!work.given(0) || !work.in[0].known)
        return unsupported(work.label() + ": its shape depends on the data; export the model with fixed sizes");
    if (const Status set = setSymbolicShape(work, *work.in[0].known); !set)
        return set;
    double value = 0;
    std::string type = "float32";
    for (const auto &attribute : work.node.attribute()) {
        if (attribute.name() != "value")
            continue;
        const auto stored = readTensor(attribute.t(), {}, work.reading.floats());
        if (!stored)
            return stored.error();
        const auto known = knownValue(*stored);
        if (!known || known->elements.size() != 1)
            return badInput(work.label() + " has no single value; the file is damaged");
        value = known->elements[0].value;
        type = graph::name(stored->type);
    }
    work.set("value", value);
    work.set("to", type);
    work.keepInputs(0);
    return {};
}

Status slice(const Work &work)
{
    const char *keys[] = {"starts", "ends", "axes", "steps"};
    for (std::size_t i = 1; i < 5; ++i)
        if (const Status moved = work.move(i, keys[i - 1]); !moved)
            return moved;
    const Ints starts = work.out.op.integers("starts");
    Ints counting(starts.size());
    for (std::size_t i = 0; i < counting.size(); ++i)
        counting[i] = static_cast<std::int64_t>(i);
    if (!work.out.op.has("axes"))
        work.set("axes", counting);
    if (!work.out.op.has("steps"))
        work.set("steps", Ints(starts.size(), 1));
    work.keepInputs(1);
    return {};
}

/// Operators whose second input is a list of axes since opset 13 (18 for some): the attribute form.
Status axesInput(const Work &work)
{
    if (const Status moved = work.move(1, "axes"); !moved)
        return moved;
    work.keepInputs(1);
    return {};
}

Status reduce(const Work &work)
{
    if (const Status moved = axesInput(work); !moved)
        return moved;
    const bool nothing = work.out.op.integer("noop_with_empty_axes") != 0 && work.out.op.integers("axes").empty();
    work.out.op.attributes.erase("noop_with_empty_axes");
    if (nothing) {
        work.out.op.type = "Identity";
        work.out.op.attributes.clear();
    }
    return {};
}

/// Operators whose second input is one number that is an attribute for us.
Status numberInput(const Work &work, const char *key)
{
    if (work.given(1)) {
        const auto values = work.ints(1, key);
        if (!values)
            return values.error();
        if (values->size() != 1)
            return badInput(fmt::format("{} needs one number as its {}; the file is damaged", work.label(), key));
        work.set(key, values->front());
    }
    work.keepInputs(1);
    return {};
}

/// A range of constants is computed while the file is read; of others not even the length is known.
Status range(const Work &work)
{
    for (std::size_t i = 0; i < work.in.size(); ++i)
        if (work.reading.exact && !work.in[i].known)
            return unsupported(work.label() + ": its limits are computed at run time");
    return {};
}

Status oneHot(const Work &work)
{
    if (!work.given(1) || !work.given(2))
        return badInput(work.label() + " lacks an input; the file is damaged");
    const std::string values = work.out.inputs[2];
    if (const Status moved = numberInput(work, "depth"); !moved)
        return moved;
    work.out.inputs.push_back(values);
    return {};
}

Status split(const Work &work)
{
    if (const Status moved = work.move(1, "split"); !moved)
        return moved;
    work.keepInputs(1);
    if (work.out.op.has("split") || !work.given(0) || !work.in[0].info)
        return {};
    const auto &shape = work.in[0].info->shape;
    std::int64_t axis = work.out.op.integer("axis");
    axis += axis < 0 ? static_cast<std::int64_t>(shape.rank()) : 0;
    const std::int64_t parts = std::max<std::int64_t>(work.node.output_size(), 1);
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.rank()))
        return badInput(work.label() + " splits along an axis that is not there");
    const std::int64_t each = (shape[static_cast<std::size_t>(axis)].size + parts - 1) / parts;
    Ints sizes(static_cast<std::size_t>(parts), each);
    sizes.back() = shape[static_cast<std::size_t>(axis)].size - each * (parts - 1);
    work.set("split", sizes);
    return {};
}

Status clip(const Work &work)
{
    const char *keys[] = {"min", "max"};
    for (std::size_t i = 1; i < 3; ++i) {
        if (!work.given(i))
            continue;
        if (!work.in[i].known || work.in[i].known->elements.size() != 1)
            return unsupported(work.label() + ": its limits are computed at run time");
        work.set(keys[i - 1], work.in[i].known->elements[0].value);
    }
    work.keepInputs(1);
    return {};
}

/// The axes that pads are for, since opset 18; the others get none.
Status spreadPads(const Work &work)
{
    if (!work.given(3) || !work.in[0].info)
        return {};
    const auto axes = work.ints(3, "axes");
    if (!axes)
        return axes.error();
    const auto rank = static_cast<std::int64_t>(work.in[0].info->shape.rank());
    const Ints given = work.out.op.integers("pads");
    Ints pads(static_cast<std::size_t>(2 * rank), 0);
    for (std::size_t i = 0; i < axes->size(); ++i) {
        const std::int64_t axis = (*axes)[i] + ((*axes)[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank || given.size() != 2 * axes->size())
            return badInput(work.label() + " has pads that do not fit its axes; the file is damaged");
        pads[static_cast<std::size_t>(axis)] = given[i];
        pads[static_cast<std::size_t>(axis + rank)] = given[i + axes->size()];
    }
    work.set("pads", pads);
    return {};
}

Status pad(const Work &work)
{
    if (const Status moved = work.move(1, "pads"); !moved)
        return moved;
    if (const Status spread = spreadPads(work); !spread)
        return spread;
    if (work.given(2)) {
        if (!work.in[2].known || work.in[2].known->elements.size() != 1)
            return unsupported(work.label() + ": its value is computed at run time");
        work.set("value", work.in[2].known->elements[0].value);
    }
    work.keepInputs(1);
    return {};
}

Status tile(const Work &work)
{
    if (const Status moved = work.move(1, "repeats"); !moved)
        return moved;
    work.keepInputs(1);
    return {};
}

Status dropout(const Work &work)
{
    const bool training = work.reading.opset < 12 ? false
                                                  : work.given(2) && work.in[2].known
            && !work.in[2].known->elements.empty() && work.in[2].known->elements[0].value != 0;
    double ratio = work.out.op.number("ratio", 0.5);
    if (work.given(1) && work.in[1].known && !work.in[1].known->elements.empty())
        ratio = work.in[1].known->elements[0].value;
    work.out.op.attributes.clear();
    work.set("ratio", training ? ratio : 0.0);
    work.keepInputs(1);
    return {};
}

Status batchNormalization(const Work &work)
{
    // Whatever mode a file was exported in, it is trained here, unless it is to be run as it is.
    work.set("training_mode", work.reading.exact ? work.out.op.integer("training_mode") : std::int64_t{1});
    work.out.op.attributes.erase("spatial");
    return {};
}

Status softmax(const Work &work)
{
    work.set("axis", work.out.op.integer("axis", work.reading.opset < 13 ? 1 : -1));
    return {};
}

/// Paddings that a file leaves to the reader (auto_pad), and the kernel's shape from the weight.
Status windowed(const Work &work)
{
    if (!work.out.op.has("kernel_shape") && work.given(1) && work.in[1].info && work.in[1].info->shape.rank() > 2) {
        const auto sizes = work.in[1].info->shape.at(1);
        work.set("kernel_shape", Ints(sizes.begin() + 2, sizes.end()));
    }
    const Ints kernel = work.out.op.integers("kernel_shape");
    const std::size_t axes = kernel.size();
    for (const char *key : {"strides", "dilations"})
        if (!work.out.op.has(key))
            work.set(key, Ints(axes, 1));
    const std::string mode = work.out.op.text("auto_pad", "NOTSET");
    work.out.op.attributes.erase("auto_pad");
    if (work.out.op.type == "MaxPool" && work.node.output_size() > 1)
        work.set("indices", std::int64_t{1});
    if (!work.out.op.has("pads"))
        work.set("pads", Ints(2 * axes, 0));
    if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
        return {};
    const Ints strides = work.out.op.integers("strides");
    const Ints dilations = work.out.op.integers("dilations");
    if (!work.in[0].info || work.in[0].info->shape.rank() != axes + 2 || strides.size() != axes
        || dilations.size() != axes)
        return badInput(work.label() + " has attributes that do not fit its input; the file is damaged");
    Ints pads(2 * axes, 0);
    for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t size = work.in[0].info->shape[i + 2].size;
        if (strides[i] <= 0)
            return badInput(work.label() + " has a stride that is not positive");
        const std::int64_t steps = (size + strides[i] - 1) / strides[i];
        const std::int64_t total =
            std::max<std::int64_t>(0, (steps - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size);
        const std::int64_t less = total / 2;
        pads[i] = mode == "SAME_UPPER" ? less : total - less;
        pads[i + axes] = total - pads[i];
    }
    work.set("pads", pads);
    return {};
}

Status cast(const Work &work)
{
    DType type{};
    if (!dataType(static_cast<int>(work.out.op.integer("to")), type, work.reading.floats()))
        return unsupported(fmt::format("{} converts to ONNX element type {}, which is not supported", work.label(),
                                       work.out.op.integer("to")));
    work.out.op.attributes.clear();
    work.set("to", std::string(graph::name(type)));
    return {};
}

Status sum(const Work &work)
{
    work.out.op.type = work.in.size() == 1 ? "Identity" : work.in.size() == 2 ? "Add" : "AddN";
    return {};
}

const std::map<std::string, Rule, std::less<>> &normalRules()
{
    static const std::map<std::string, Rule, std::less<>> table = {
        {"Constant", constant},
        {"Reshape", reshape},
        {"Expand", expand},
        {"ConstantOfShape", constantOfShape},
        {"Slice", slice},
        {"Squeeze", axesInput},
        {"Unsqueeze", axesInput},
        {"ReduceSum", reduce},
        {"ReduceMean", reduce},
        {"ReduceMax", reduce},
        {"ReduceMin", reduce},
        {"ReduceProd", reduce},
        {"Split", split},
        {"Clip", clip},
        {"Pad", pad},
        {"Tile", tile},
        {"Dropout", dropout},
        {"BatchNormalization", batchNormalization},
        {"Softmax", softmax},
        {"LogSoftmax", softmax},
        {"Conv", windowed},
        {"MaxPool", windowed},
        {"AveragePool", windowed},
        {"Cast", cast},
        {"Sum", sum},
        {"OneHot", oneHot},
        {"Range", range},
        {"CumSum", [](const Work &work) { return numberInput(work, "axis"); }},
        {"TopK", [](const Work &work) { return numberInput(work, "k"); }},
        {"Scatter",
         [](const Work &work) {
             work.out.op.type = "ScatterElements";
             return Status();
         }},
        {"Trilu", [](const Work &work) { return numberInput(work, "k"); }},
    };
    return table;
}

} // namespace

Result<NormalNode> normalize(const onnx::NodeProto &node, const std::vector<NodeInput> &inputs, const Reading &reading)
{
    NormalNode normal;
    normal.op.type = node.op_type();
    if (!node.domain().empty() && node.domain() != "ai.onnx")
        normal.op.type = node.domain() + "::" + node.op_type();
    for (const NodeInput &input : inputs)
        normal.inputs.push_back(input.name);
    copyAttributes(node, normal.op.attributes);
    const auto rule = normalRules().find(normal.op.type.name());
    if (rule == normalRules().end())
        return normal;
    if (node.output_size() == 0)
        return badInput(
            fmt::format("operator '{}' ({}) has no output; the file is damaged", node.name(), node.op_type()));
    const bool needsData = normal.op.type != "Constant";
    if (needsData && (inputs.empty() || inputs[0].name.empty()))
        return badInput(
            fmt::format("operator '{}' ({}) has no input; the file is damaged", node.name(), node.op_type()));
    if (const Status done = rule->second(Work{node, inputs, reading, normal}); !done)
        return done.error();
    return normal;
}

} // namespace planloom::import
