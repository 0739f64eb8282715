// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/order.h"

#include <fmt/format.h>
#include <map>
#include <set>

namespace planloom::import {

Result<std::vector<int>> sortNodes(const onnx::GraphProto &graph, const std::function<bool(const std::string &)> &given)
{
    std::map<std::string, int> maker;
    for (int n = 0; n < graph.node_size(); ++n)
        for (const std::string &output : graph.node(n).output())
            if (!output.empty() && (given(output) || !maker.emplace(output, n).second))
                return badInput(fmt::format("tensor '{}' is made twice; the file is damaged", output));
    std::vector<int> missing(static_cast<std::size_t>(graph.node_size()), 0);
    std::map<int, std::vector<int>> readers;
    for (int n = 0; n < graph.node_size(); ++n)
        for (const std::string &input : graph.node(n).input()) {
            if (input.empty() || given(input))
                continue;
            const auto made = maker.find(input);
            if (made == maker.end())
                return badInput(
                    fmt::format("operator '{}' ({}) reads '{}', which no operator writes; the file is damaged",
                                graph.node(n).name(), graph.node(n).op_type(), input));
            readers[made->second].push_back(n);
            ++missing[static_cast<std::size_t>(n)];
        }
    std::set<int> ready;
    for (int n = 0; n < graph.node_size(); ++n)
        if (missing[static_cast<std::size_t>(n)] == 0)
            ready.insert(n);
    std::vector<int> order;
    while (!ready.empty()) {
        const int n = *ready.begin();
        ready.erase(ready.begin());
        order.push_back(n);
        for (const int reader : readers[n])
            if (--missing[static_cast<std::size_t>(reader)] == 0)
                ready.insert(reader);
    }
    if (static_cast<int>(order.size()) == graph.node_size())
        return order;
    for (int n = 0; n < graph.node_size(); ++n)
        if (missing[static_cast<std::size_t>(n)] > 0)
            return badInput(fmt::format("the graph has a cycle through operator '{}' ({}); a model must be acyclic",
                                        graph.node(n).name(), graph.node(n).op_type()));
    return order;
}

} // namespace planloom::import
