// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators.h"
#include "engine/graph/operators_families.h"

#include <algorithm>
#include <map>

namespace planloom::graph {
namespace {

using Table = std::map<std::string_view, OpSchema>;

const Table &table()
{
    static const Table schemas = [] {
        Table all;
        for (const auto family : {elementwiseSchemas, matrixSchemas, normalizationSchemas, convolutionSchemas, shapingSchemas, reductionSchemas, lossSchemas, boxingSchemas, flatSchemas, fusedSchemas,
                                  recurrentSchemas, scatterSchemas, unfusedSchemas})
            for (OpSchema &schema : family())
                all.emplace(schema.type, std::move(schema));
        return all;
    }();
    return schemas;
}

} // namespace

std::vector<OpSchema> fusedSchemas()
{
    std::vector<OpSchema> all = fusedProductSchemas();
    for (OpSchema &schema : fusedNormalizationSchemas())
        all.push_back(std::move(schema));
    return all;
}

const OpSchema *findSchema(std::string_view type)
{
    const auto found = table().find(type);
    return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string> knownTypes()
{
    std::vector<std::string> types;
    for (const auto &[type, schema] : table())
        types.emplace_back(type);
    return types;
}

} // namespace planloom::graph
