// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/pipeline_game.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace planloom::planners::automap {
namespace {

std::set<std::size_t> deviceCuts(const cluster::Cluster &cluster)
{
    const auto devices = cluster.devices();
    std::set<std::size_t> cuts;
    for (std::size_t d = 1; d < devices.size(); ++d)
        if (devices[d].node != devices[d - 1].node)
            cuts.insert(d);
    const std::size_t step = std::max<std::size_t>(1, devices.size() / kMostDeviceCuts);
    for (std::size_t d = step; d < devices.size() && cuts.size() < kMostDeviceCuts; d += step)
        cuts.insert(d);
    return cuts;
}

/// Seconds of a sample up to each layer, on the device that @p type is.
std::vector<double> prefixSeconds(const cost::CostModel &costs, std::size_t type)
{
    std::vector<double> sums{0};
    for (std::size_t l = 0; l < costs.layers().size(); ++l)
        sums.push_back(sums.back() + (costs.forward(l, l + 1, 1, type) + costs.backward(l, l + 1, 1, type)).value());
    return sums;
}

} // namespace

std::vector<Cut> candidateCuts(const plan::Subject &subject, double radius)
{
    const auto devices = subject.cluster->devices();
    const std::size_t layers = subject.layers().size();
    const std::vector<double> seconds = prefixSeconds(*subject.costs, devices.front().type);
    std::vector<double> speed{0};
    for (const cluster::Device &device : devices) {
        const double pass =
            (subject.costs->forward(0, layers, 1, device.type) + subject.costs->backward(0, layers, 1, device.type))
                .value();
        speed.push_back(speed.back() + (pass > 0 ? 1 / pass : 1));
    }
    std::vector<Cut> cuts;
    for (const std::size_t before : deviceCuts(*subject.cluster)) {
        const double balanced = seconds.back() * speed[before] / speed.back();
        const auto at =
            static_cast<std::size_t>(std::lower_bound(seconds.begin(), seconds.end(), balanced) - seconds.begin());
        for (std::size_t layer = 1; layer < layers; ++layer) {
            const std::size_t away = layer > at ? layer - at : at - layer;
            if (away <= kLayersAround || std::fabs(seconds[layer] - balanced) <= radius * seconds.back())
                cuts.push_back({before, layer});
        }
    }
    return cuts;
}

PipelineGame::PipelineGame(std::vector<dapple::Scorer> &scorers, std::vector<Cut> cuts, std::size_t stages)
    : m_scorers(scorers),
      m_cuts(std::move(cuts)),
      m_stages(stages),
      m_layers(scorers.front().layerCount()),
      m_devices(scorers.front().subject().cluster->devices().size())
{
    reset();
}

void PipelineGame::reset()
{
    m_made.clear();
    m_best.reset();
    m_over = false;
    m_score = kLost;
    findLegal();
}

/// Behind the last cut, with a device and a layer left for each stage that is still to come.
void PipelineGame::findLegal()
{
    const Cut last = m_made.empty() ? Cut{} : m_made.back();
    const std::size_t toCome = m_stages - 1 - m_made.size();
    m_legal.assign(m_cuts.size(), 0);
    bool any = false;
    for (std::size_t c = 0; c < m_cuts.size() && toCome > 0; ++c) {
        const Cut &cut = m_cuts[c];
        const bool behind = cut.devices > last.devices && cut.layers > last.layers;
        m_legal[c] = behind && m_devices - cut.devices >= toCome && m_layers - cut.layers >= toCome ? 1 : 0;
        any = any || m_legal[c] != 0;
    }
    m_over = !any;
    if (m_over && toCome == 0)
        measure();
}

void PipelineGame::measure()
{
    const auto devices = m_scorers.front().subject().cluster->devices();
    dapple::Spans spans;
    Cut from;
    for (std::size_t s = 0; s <= m_made.size(); ++s) {
        const Cut to = s < m_made.size() ? m_made[s] : Cut{m_devices, m_layers};
        dapple::Span span{from.layers, to.layers, {}};
        for (std::size_t d = from.devices; d < to.devices; ++d)
            span.devices.push_back(devices[d].id);
        spans.push_back(std::move(span));
        from = to;
    }
    m_best.reset();
    for (dapple::Scorer &scorer : m_scorers)
        if (auto scored = scorer.score(spans); scored && (!m_best || scored->objective < m_best->objective))
            m_best = std::move(scored);
    m_score = m_best && m_best->objective > 0 ? m_scorers.front().oneDeviceSeconds() / m_best->objective : kLost;
}

std::vector<float> PipelineGame::state() const
{
    std::vector<float> result(stateSize(), 0);
    for (std::size_t i = 0; i < m_made.size(); ++i) {
        result[2 * i] = static_cast<float>(m_made[i].layers) / static_cast<float>(m_layers);
        result[2 * i + 1] = static_cast<float>(m_made[i].devices) / static_cast<float>(m_devices);
    }
    result[stateSize() - 2] = static_cast<float>(m_made.size()) / static_cast<float>(m_stages);
    result[stateSize() - 1] = m_best && m_best->objective > 0
        ? static_cast<float>(std::sqrt(m_best->objective / m_scorers.front().oneDeviceSeconds()))
        : 0;
    return result;
}

double PipelineGame::act(std::size_t action)
{
    m_made.push_back(m_cuts[action]);
    findLegal();
    if (!m_over) {
        measure(); // the pipeline at hand is part of the state
        m_score = kLost;
        return 0;
    }
    return m_score == kLost ? -1 : std::sqrt(m_score / static_cast<double>(m_devices));
}

} // namespace planloom::planners::automap
