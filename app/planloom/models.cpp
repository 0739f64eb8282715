// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "engine/import/import.h"

#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;

Status models(Output &output)
{
    ordered_json all = ordered_json::array();
    Table table({"MODEL", "WHAT IT IS"});
    for (const auto &entry : import::zooEntries()) {
        table.row({"zoo:" + entry.name, entry.about});
        all.push_back(ordered_json{{"name", "zoo:" + entry.name}, {"about", entry.about}});
    }
    table.print(output);
    output.line();
    output.line("Also: FILE.onnx, a Hugging Face config.json, a layer profile of DAPPLE or PipeDream, graph JSON.");
    output.result(ordered_json{{"models", all}});
    return {};
}

} // namespace planloom::cli
