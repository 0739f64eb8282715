// SPDX-License-Identifier: Apache-2.0
#include "planners/common/kept_stages.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace planloom::planners {
namespace {

std::optional<std::size_t> numberIn(std::string_view text)
{
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return number;
}

/// One part between commas. False: it is of another form.
bool takeKept(std::string_view part, KeptStages &kept)
{
    while (!part.empty() && part.front() == ' ')
        part.remove_prefix(1);
    const std::size_t dash = part.find('-');
    if (dash == std::string_view::npos) {
        const auto cut = numberIn(part);
        if (cut)
            kept.cuts.push_back(*cut);
        return cut.has_value();
    }
    const std::size_t colon = part.find(':');
    const auto first = numberIn(part.substr(0, dash));
    const auto last = numberIn(part.substr(dash + 1, colon == std::string_view::npos ? colon : colon - dash - 1));
    const auto devices =
        colon == std::string_view::npos ? std::optional<std::size_t>(0) : numberIn(part.substr(colon + 1));
    if (!first || !last || !devices || *last < *first || (colon != std::string_view::npos && *devices == 0))
        return false;
    kept.runs.push_back({*first, *last + 1, *devices});
    return true;
}

Status checkKept(const KeptStages &kept, std::size_t layers)
{
    for (const KeptStages::Run &run : kept.runs)
        if (run.last > layers || run.last <= run.first) // the largest number: its last layer + 1 is 0
            return badInput(fmt::format("option keep has layers {}-{}, but the model's are 0-{}; leave the stage out",
                                        run.first, run.last - 1, layers - 1));
    for (const std::size_t cut : kept.cuts)
        if (cut == 0 || cut >= layers)
            return badInput(fmt::format("option keep lets a stage begin with layer {}; give 1 to {}", cut, layers - 1));
    for (std::size_t i = 1; i < kept.runs.size(); ++i)
        if (kept.runs[i].first < kept.runs[i - 1].last)
            return badInput(
                fmt::format("option keep has layer {} in two stages; leave one of them out", kept.runs[i].first));
    for (const KeptStages::Run &run : kept.runs)
        for (const std::size_t cut : kept.cuts)
            if (cut > run.first && cut < run.last)
                return badInput(fmt::format("option keep lets a stage begin with layer {}, inside of the stage {}-{} "
                                            "that is kept; leave one of them out",
                                            cut, run.first, run.last - 1));
    return {};
}

} // namespace

bool KeptStages::allows(std::size_t first, std::size_t last, std::size_t devices) const
{
    for (const std::size_t cut : cuts)
        if (cut > first && cut < last)
            return false;
    for (const Run &run : runs) {
        const bool apart = last <= run.first || first >= run.last;
        const bool same =
            first == run.first && last == run.last && (devices == 0 || run.devices == 0 || devices == run.devices);
        if (!apart && !same)
            return false;
    }
    return true;
}

bool KeptStages::allows(const plan::Plan &plan) const
{
    return std::all_of(plan.stages.begin(), plan.stages.end(), [this](const plan::Stage &stage) {
        return allows(stage.firstLayer, stage.lastLayer, stage.devices.size());
    });
}

std::vector<std::size_t> KeptStages::edges(std::size_t layers) const
{
    std::set<std::size_t> all(cuts.begin(), cuts.end());
    for (const Run &run : runs) {
        all.insert(run.first);
        all.insert(run.last);
    }
    all.erase(0);
    all.erase(layers);
    return {all.begin(), all.end()};
}

std::size_t KeptStages::mostStages(std::size_t layers) const
{
    for (const Run &run : runs)
        layers -= run.last - run.first - 1;
    return layers;
}

OptionInfo keepOption()
{
    return {kKeepOption, "none",
            "what of a pipeline stays, by commas: 0-11:4 keeps layers 0 to 11 as one stage on four devices (0-11: on "
            "any number), 24 lets a stage begin with layer 24"};
}

std::string textOf(const KeptStages &kept)
{
    std::string text;
    const auto add = [&text](const std::string &part) { text += (text.empty() ? "" : ",") + part; };
    for (const KeptStages::Run &run : kept.runs)
        add(fmt::format("{}-{}{}", run.first, run.last - 1,
                        run.devices > 0 ? fmt::format(":{}", run.devices) : std::string()));
    for (const std::size_t cut : kept.cuts)
        add(std::to_string(cut));
    return text;
}

Result<KeptStages> keptStages(const Options &options, std::size_t layers)
{
    KeptStages kept;
    const auto option = options.find(kKeepOption);
    if (option == options.end() || option->second.empty() || option->second == "none")
        return kept;
    const std::string_view text = option->second;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t comma = std::min(text.find(',', begin), text.size());
        if (!takeKept(text.substr(begin, comma - begin), kept))
            return badInput(
                fmt::format("option keep={} is not a list of stages and layers; write it as 0-11:4,24", text));
        begin = comma + 1;
    }
    std::sort(kept.runs.begin(), kept.runs.end(),
              [](const KeptStages::Run &a, const KeptStages::Run &b) { return a.first < b.first; });
    std::sort(kept.cuts.begin(), kept.cuts.end());
    kept.cuts.erase(std::unique(kept.cuts.begin(), kept.cuts.end()), kept.cuts.end());
    if (const Status status = checkKept(kept, layers); !status)
        return status.error();
    return kept;
}

} // namespace planloom::planners
