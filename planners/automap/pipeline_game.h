// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/automap/environment.h"
#include "planners/dapple/score.h"

#include <cstddef>
#include <vector>

namespace planloom::planners::automap {

/// Where a pipeline may be cut: devices before the cut, in the cluster's order, and layers before it.
struct Cut {
    std::size_t devices = 0;
    std::size_t layers = 0;
    friend bool operator==(const Cut &, const Cut &) = default;
};

/// Device-cut-centred pruning. For every device cut the layer at which both sides work equally long
/// for their devices, and those around it: layers within @p radius of the whole time, at least kLayersAround on each
/// side. Device cuts are those between machines and, up to kMostDeviceCuts of them, those within, evenly spaced.
std::vector<Cut> candidateCuts(const plan::Subject &subject, double radius);
inline constexpr std::size_t kLayersAround = 8;
inline constexpr std::size_t kMostDeviceCuts = 32;

/// Pipeline partitioning (§3.3): the last stage is cut in two until there are as many stages as asked for. At the end
/// the reward is sqrt(L0 / L): L is the length of the pipeline by events (all sizes of a micro-batch are tried), L0 an
/// even share of one device's time.
class PipelineGame final : public Environment {
public:
    /// @p scorers: one per size of a micro-batch.
    PipelineGame(std::vector<dapple::Scorer> &scorers, std::vector<Cut> cuts, std::size_t stages);

    [[nodiscard]] std::size_t stateSize() const override { return 2 * (m_stages - 1) + 2; }
    [[nodiscard]] std::size_t actionCount() const override { return m_cuts.size(); }
    void reset() override;
    [[nodiscard]] std::vector<float> state() const override;
    [[nodiscard]] const std::vector<char> &legal() const override { return m_legal; }
    double act(std::size_t action) override;
    [[nodiscard]] bool over() const override { return m_over; }
    /// L0 / L, the speed-up over one device.
    [[nodiscard]] double score() const override { return m_score; }

    /// The best plan of the stages at hand; none where nothing fits.
    [[nodiscard]] const std::optional<dapple::Scored> &best() const { return m_best; }

private:
    void findLegal();
    void measure();

    std::vector<dapple::Scorer> &m_scorers;
    std::vector<Cut> m_cuts;
    std::size_t m_stages;
    std::size_t m_layers;
    std::size_t m_devices;
    std::vector<Cut> m_made;
    std::vector<char> m_legal;
    std::optional<dapple::Scored> m_best;
    bool m_over = false;
    double m_score = kLost;
};

} // namespace planloom::planners::automap
