// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/graph.h"

#include <algorithm>

namespace planloom::graph {
namespace {

template <class T>
const T *attribute(const Attributes &attributes, std::string_view key)
{
    const auto found = attributes.find(key);
    return found == attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

} // namespace

std::int64_t Op::integer(std::string_view key, std::int64_t fallback) const
{
    const auto *value = attribute<std::int64_t>(attributes, key);
    return value ? *value : fallback;
}

double Op::number(std::string_view key, double fallback) const
{
    if (const auto *value = attribute<double>(attributes, key))
        return *value;
    if (const auto *value = attribute<std::int64_t>(attributes, key))
        return static_cast<double>(*value);
    return fallback;
}

std::string Op::text(std::string_view key, std::string fallback) const
{
    const auto *value = attribute<std::string>(attributes, key);
    return value ? *value : std::move(fallback);
}

std::vector<std::int64_t> Op::integers(std::string_view key, std::vector<std::int64_t> fallback) const
{
    const auto *value = attribute<std::vector<std::int64_t>>(attributes, key);
    return value ? *value : std::move(fallback);
}

std::vector<double> Op::numbers(std::string_view key) const
{
    const auto *value = attribute<std::vector<double>>(attributes, key);
    return value ? *value : std::vector<double>();
}

TensorId Graph::find(std::string_view tensorName) const
{
    const auto found = std::lower_bound(m_byName.begin(), m_byName.end(), tensorName,
                                        [&](TensorId id, std::string_view wanted) { return tensor(id).name < wanted; });
    if (found == m_byName.end() || tensor(*found).name != tensorName)
        return {};
    return *found;
}

std::vector<TensorId> Graph::withRole(TensorRole role) const
{
    std::vector<TensorId> ids;
    for (const Tensor &tensor : m_tensors)
        if (tensor.role == role)
            ids.push_back(tensor.id);
    return ids;
}

Bytes Graph::parameterBytes() const
{
    Bytes bytes;
    for (const Tensor &tensor : m_tensors)
        if (tensor.role == TensorRole::Parameter)
            bytes += tensor.bytes();
    return bytes;
}

std::int64_t Graph::parameterCount() const
{
    std::int64_t count = 0;
    for (const Tensor &tensor : m_tensors)
        if (tensor.role == TensorRole::Parameter)
            count += tensor.shape.elements(1);
    return count;
}

} // namespace planloom::graph
