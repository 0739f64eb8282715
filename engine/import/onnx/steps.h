// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/node.h"

#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

namespace planloom::import {

using Names = std::vector<std::string>;

/// ONNX's number for an element type.
inline int onnxType(graph::DType type)
{
    switch (type) {
    case graph::DType::F32: return onnx::TensorProto::FLOAT;
    case graph::DType::F16: return onnx::TensorProto::FLOAT16;
    case graph::DType::BF16: return onnx::TensorProto::BFLOAT16;
    case graph::DType::F64: return onnx::TensorProto::DOUBLE;
    case graph::DType::I64: return onnx::TensorProto::INT64;
    case graph::DType::I32: return onnx::TensorProto::INT32;
    case graph::DType::I8: return onnx::TensorProto::INT8;
    case graph::DType::U8: return onnx::TensorProto::UINT8;
    case graph::DType::Bool: return onnx::TensorProto::BOOL;
    }
    return onnx::TensorProto::UNDEFINED;
}

/// The nodes that take one node's place, while they are written.
class Steps {
public:
    Steps(const onnx::NodeProto &node, const std::vector<NodeInput> &in, const Reading &reading)
        : m_node(node),
          m_in(in),
          m_reading(reading)
    {
    }

    [[nodiscard]] const onnx::NodeProto &node() const { return m_node; }
    [[nodiscard]] std::int64_t opset() const { return m_reading.opset; }
    [[nodiscard]] std::size_t inputs() const { return m_in.size(); }
    [[nodiscard]] const std::string &x(std::size_t i = 0) const { return m_in[i].name; }
    [[nodiscard]] bool given(std::size_t i) const { return i < m_in.size() && m_in[i].info != nullptr; }
    [[nodiscard]] const graph::Shape &shape(std::size_t i = 0) const { return m_in[i].info->shape; }
    [[nodiscard]] std::int64_t rank(std::size_t i = 0) const { return static_cast<std::int64_t>(shape(i).rank()); }
    [[nodiscard]] graph::DType typeOf(std::size_t i = 0) const { return m_in[i].info->type; }
    /// The nodes; the last one makes the node's output.
    [[nodiscard]] std::vector<onnx::NodeProto> take()
    {
        if (!m_made.empty())
            m_made.back().set_output(0, m_node.output(0));
        return std::move(m_made);
    }

    /// As take(), where steps have been given the names of the node's outputs by nameOutput().
    [[nodiscard]] std::vector<onnx::NodeProto> takeNamed()
    {
        for (const auto &step : m_made)
            if (step.output(0) == m_node.output(0))
                return std::move(m_made);
        return {}; // a rule that gave up
    }
    [[nodiscard]] bool makes(int output) const
    {
        return output < m_node.output_size() && !m_node.output(output).empty();
    }
    /// Makes the result of the previous step the node's output, if the node has it. Returns its name.
    std::string nameOutput(int output = 0)
    {
        if (makes(output))
            m_made.back().set_output(0, m_node.output(output));
        return m_made.back().output(0);
    }
    /// The step before gets the node's attributes, too, but for @p without.
    void copyAttributes(std::string_view without = {})
    {
        for (const auto &attribute : m_node.attribute())
            if (attribute.name() != without)
                *m_made.back().add_attribute() = attribute;
    }
    std::string reshape(const std::string &x, const std::vector<graph::Dim> &dims)
    {
        std::vector<std::int64_t> sizes;
        std::int64_t batchAxis = -1;
        for (std::size_t i = 0; i < dims.size(); ++i) {
            sizes.push_back(dims[i].size);
            batchAxis = dims[i].batch ? static_cast<std::int64_t>(i) : batchAxis;
        }
        return add("Reshape", {x}, {{"shape", sizes}, {"batch_axis", batchAxis}});
    }
    [[nodiscard]] bool exact() const { return m_reading.exact; }
    [[nodiscard]] std::int64_t batchSize() const { return m_reading.batchSize; }
    [[nodiscard]] const KnownValue *known(std::size_t i) const { return i < m_in.size() ? m_in[i].known : nullptr; }
    [[nodiscard]] std::vector<std::int64_t> integers(const char *name, std::vector<std::int64_t> fallback = {}) const
    {
        const auto *found = attribute(name);
        return found ? std::vector<std::int64_t>(found->ints().begin(), found->ints().end()) : std::move(fallback);
    }
    [[nodiscard]] std::string text(const char *name, std::string fallback = {}) const
    {
        const auto *found = attribute(name);
        return found ? found->s() : std::move(fallback);
    }

    [[nodiscard]] const onnx::AttributeProto *attribute(const char *name) const
    {
        for (const auto &attribute : m_node.attribute())
            if (attribute.name() == name)
                return &attribute;
        return nullptr;
    }
    [[nodiscard]] std::int64_t integer(const char *name, std::int64_t fallback) const
    {
        const auto *found = attribute(name);
        return found ? static_cast<std::int64_t>(found->i()) : fallback;
    }
    [[nodiscard]] double number(const char *name, double fallback) const
    {
        const auto *found = attribute(name);
        return found ? static_cast<double>(found->f()) : fallback;
    }

    /// Adds a node; returns its output.
    std::string add(const std::string &type, const Names &inputs,
                    const std::map<std::string, graph::Attribute> &attributes = {})
    {
        onnx::NodeProto &step = m_made.emplace_back();
        step.set_op_type(type);
        const std::string stem = m_node.name().empty() ? m_node.output(0) : m_node.name();
        step.set_name(fmt::format("{}/{}_{}", stem, type, m_made.size()));
        for (const std::string &input : inputs)
            step.add_input(input);
        step.add_output(fmt::format("{}/{}_{}", m_node.output(0), m_node.op_type(), m_made.size()));
        for (const auto &[key, value] : attributes)
            set(step, key, value);
        return step.output(0);
    }

    /// A number of the first input's type.
    std::string scalar(double value)
    {
        const graph::DType type = m_in[0].info->type;
        const std::string made = add("Constant", {});
        onnx::AttributeProto *attribute = m_made.back().add_attribute();
        attribute->set_name("value");
        attribute->set_type(onnx::AttributeProto::TENSOR);
        attribute->mutable_t()->set_data_type(onnxType(type));
        const auto bytes = KnownValue::scalar(type, value).bytes();
        attribute->mutable_t()->set_raw_data(bytes.data(), bytes.size());
        return made;
    }

    /// A constant tensor.
    std::string constant(graph::DType type, const std::vector<std::int64_t> &dims, const std::vector<double> &values)
    {
        KnownValue value;
        value.type = type;
        value.dims = dims;
        for (const double element : values)
            value.elements.push_back({element, false});
        const std::string made = add("Constant", {});
        onnx::AttributeProto *attribute = m_made.back().add_attribute();
        attribute->set_name("value");
        attribute->set_type(onnx::AttributeProto::TENSOR);
        attribute->mutable_t()->set_data_type(onnxType(type));
        attribute->mutable_t()->mutable_dims()->Assign(dims.begin(), dims.end());
        const auto bytes = value.bytes();
        attribute->mutable_t()->set_raw_data(bytes.data(), bytes.size());
        return made;
    }

    /// A reduction over the node's axes, which are an attribute or a second input.
    std::string reduce(const std::string &type, const std::string &x, std::int64_t keepDimensions)
    {
        Names inputs{x};
        if (given(1))
            inputs.push_back(m_in[1].name);
        const std::string made = add(type, inputs);
        for (const auto &attribute : m_node.attribute())
            if (attribute.name() != "keepdims")
                *m_made.back().add_attribute() = attribute;
        set(m_made.back(), "keepdims", keepDimensions);
        return made;
    }

private:
    static void set(onnx::NodeProto &step, const std::string &key, const graph::Attribute &value)
    {
        onnx::AttributeProto *attribute = step.add_attribute();
        attribute->set_name(key);
        if (const auto *integer = std::get_if<std::int64_t>(&value)) {
            attribute->set_type(onnx::AttributeProto::INT);
            attribute->set_i(*integer);
        } else if (const auto *number = std::get_if<double>(&value)) {
            attribute->set_type(onnx::AttributeProto::FLOAT);
            attribute->set_f(static_cast<float>(*number));
        } else if (const auto *words = std::get_if<std::string>(&value)) {
            attribute->set_type(onnx::AttributeProto::STRING);
            attribute->set_s(*words);
        } else if (const auto *integers = std::get_if<std::vector<std::int64_t>>(&value)) {
            attribute->set_type(onnx::AttributeProto::INTS);
            attribute->mutable_ints()->Assign(integers->begin(), integers->end());
        }
    }

    const onnx::NodeProto &m_node;
    const std::vector<NodeInput> &m_in;
    const Reading &m_reading;
    std::vector<onnx::NodeProto> m_made;
};

using StepRule = void (*)(Steps &);
/// Rules for layers: convolutions, pools, normalisations, losses, Resize, Einsum.
const std::map<std::string, StepRule, std::less<>> &layerRules();

} // namespace planloom::import
