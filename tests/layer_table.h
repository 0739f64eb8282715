// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace planloom::testing {

/// A row of tests/golden/profiles.
struct LayerRow {
    std::string node, name;
    std::string forwardMs, backwardMs, outputBytes, parameterBytes; ///< outputBytes: "a;b" where there are several
    std::vector<std::string> inputs;
};

/// The table tests/golden/profiles/@p name.csv. Throws if there is none.
inline std::vector<LayerRow> layerTable(const std::string &name)
{
    std::ifstream in(PLANLOOM_SOURCE_DIR "/tests/golden/profiles/" + name + ".csv");
    std::string line;
    if (!std::getline(in, line))
        throw std::runtime_error("tests/golden/profiles has no table " + name);
    std::vector<LayerRow> rows;
    while (std::getline(in, line)) {
        std::istringstream cells(line);
        LayerRow &row = rows.emplace_back();
        for (std::string *cell :
             {&row.node, &row.name, &row.forwardMs, &row.backwardMs, &row.outputBytes, &row.parameterBytes})
            std::getline(cells, *cell, ',');
        for (std::string input; cells >> input;)
            row.inputs.push_back(input);
    }
    return rows;
}

/// The same in the text form of the DAPPLE and PipeDream repositories, which import::readLayerProfile() reads.
inline std::string layerProfileText(const std::string &name)
{
    std::string nodes;
    std::string edges;
    for (const LayerRow &row : layerTable(name)) {
        const bool several = row.outputBytes.find(';') != std::string::npos;
        nodes += "node" + row.node + " -- " + row.name + " -- forward_compute_time=" + row.forwardMs
            + ", backward_compute_time=" + row.backwardMs
            + ", activation_size=" + (several ? "[" + row.outputBytes + "]" : row.outputBytes)
            + ", parameter_size=" + row.parameterBytes + "\n";
        for (const std::string &input : row.inputs)
            edges += "\tnode" + input + " -- node" + row.node + "\n";
    }
    return nodes + edges;
}

} // namespace planloom::testing
