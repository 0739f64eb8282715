// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators/operators.h"

#include "engine/graph/operators/families.h"

#include <algorithm>

namespace planloom::graph {
namespace {

std::vector<Operator> makeRegistry()
{
    std::vector<Operator> all;
    for (const auto family : {elementwiseOperators, matrixOperators, normalizationOperators, convolutionOperators,
                              shapingOperators, indexingOperators, reductionOperators, lossOperators, boxingOperators,
                              flatOperators, recurrentOperators, unfusedOperators, proximalOperators, sparseOperators})
        for (Operator &row : family())
            all.push_back(std::move(row));
    std::sort(all.begin(), all.end(),
              [](const Operator &a, const Operator &b) { return std::string_view(a.type) < b.type; });
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].index = i;
    return all;
}

} // namespace

std::span<const Operator> operators()
{
    static const std::vector<Operator> kRows = makeRegistry();
    return kRows;
}

const Operator *findOperator(std::string_view type)
{
    const auto rows = operators();
    const auto found = std::lower_bound(rows.begin(), rows.end(), type,
                                        [](const Operator &row, std::string_view name) { return row.type < name; });
    return found != rows.end() && found->type == type ? &*found : nullptr;
}

OpType::OpType(std::string name) : m_name(std::move(name)), m_row(findOperator(m_name))
{
    static constexpr OpTraits kUnknown;
    m_traits = m_row != nullptr ? &m_row->traits : &kUnknown;
}

bool isLayerProfile(const Graph &graph)
{
    return std::any_of(graph.ops().begin(), graph.ops().end(),
                       [](const Op &op) { return op.traits().cost == CostClass::Measured; });
}

} // namespace planloom::graph
