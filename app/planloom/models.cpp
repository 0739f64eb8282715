// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/json_text.h"
#include "app/planloom/verbs.h"
#include "engine/import/import.h"

namespace planloom::cli {

Status models(Output &output)
{
    JsonArray all;
    Table table({"MODEL", "WHAT IT IS"});
    for (const auto &entry : import::zooEntries()) {
        table.row({"zoo:" + entry.name, entry.about});
        all.raw(JsonObject().add("name", "zoo:" + entry.name).add("about", entry.about).text());
    }
    table.print(output);
    output.line();
    output.line("Also: FILE.onnx, a Hugging Face config.json, a layer profile of DAPPLE or PipeDream, graph JSON.");
    output.json(JsonObject().raw("models", all.text()).text());
    return {};
}

} // namespace planloom::cli
