// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/signature.h"

#include <fmt/format.h>
#include <iterator>

namespace planloom::cost {
namespace {

void append(std::string &text, const graph::Attribute &attribute)
{
    const auto out = std::back_inserter(text);
    if (const auto *integer = std::get_if<std::int64_t>(&attribute))
        fmt::format_to(out, "{}", *integer);
    else if (const auto *number = std::get_if<double>(&attribute))
        fmt::format_to(out, "{}", *number);
    else if (const auto *word = std::get_if<std::string>(&attribute))
        text += *word;
    else if (const auto *integers = std::get_if<std::vector<std::int64_t>>(&attribute))
        fmt::format_to(out, "[{}]", fmt::join(*integers, ","));
    else if (const auto *numbers = std::get_if<std::vector<double>>(&attribute))
        fmt::format_to(out, "[{}]", fmt::join(*numbers, ","));
}

void append(std::string &text, const graph::Tensor &tensor)
{
    text += graph::name(tensor.type);
    text += tensor.layout == graph::Layout::Blocked ? "b[" : "[";
    bool first = true;
    for (const graph::Dim &dim : tensor.shape.dims()) {
        if (!first)
            text += ',';
        first = false;
        if (dim.size != 1 || !dim.batch)
            text += std::to_string(dim.size);
        if (dim.batch)
            text += 'N';
    }
    text += ']';
}

void append(std::string &text, const graph::Graph &graph, const std::vector<TensorId> &tensors)
{
    text += '(';
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        text += i > 0 ? "," : "";
        if (tensors[i].valid())
            append(text, graph.tensor(tensors[i]));
    }
    text += ')';
}

} // namespace

std::string signatureOf(const graph::Graph &graph, const graph::Op &op)
{
    std::string text = op.type;
    text += '{';
    for (const auto &[key, value] : op.attributes) {
        text += text.back() == '{' ? "" : ",";
        text += key;
        text += '=';
        append(text, value);
    }
    text += '}';
    append(text, graph, op.inputs);
    text += "->";
    append(text, graph, op.outputs);
    return text;
}

} // namespace planloom::cost
