// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/index.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::ui {

/// Where the rows of two traces stand, one below the other: a group for each device, in it lane by lane the predicted
/// rows above the measured ones.
class TimelineRows {
public:
    static constexpr int kComputeHeight = 24; ///< pixels
    static constexpr int kLaneHeight = 13;
    static constexpr int kRowGap = 2;
    static constexpr int kGroupGap = 10;

    struct Row {
        bool measured = false;
        bool computes = false; ///< by the trace's table of lanes
        std::uint32_t group = 0;
        std::uint32_t lod = 0; ///< index into the level of detail's rows
        std::int32_t lane = 0;
        int y = 0; ///< pixels from the top of the content
        int height = 0;
    };
    /// The rows of one device.
    struct Group {
        std::string_view device;
        std::int32_t predictedRank = -1; ///< -1: none
        std::int32_t measuredRank = -1;
        int y = 0;
        int height = 0;
    };
    using Range = std::pair<std::size_t, std::size_t>; ///< [first, last)

    /// Names of devices stay those of the indexes, which must outlive their use. Cost: O(rows).
    void layOut(const trace::Index &predicted, const trace::Index &measured, bool communication);

    [[nodiscard]] const std::vector<Group> &groups() const { return m_groups; }
    [[nodiscard]] const std::vector<Row> &rows() const { return m_rows; }
    [[nodiscard]] int height() const { return m_height; }
    /// Rows, and groups, that touch the pixels [top, bottom]. Cost: O(log rows).
    [[nodiscard]] Range rowsBetween(int top, int bottom) const;
    [[nodiscard]] Range groupsBetween(int top, int bottom) const;
    [[nodiscard]] std::optional<std::size_t> rowAt(int y) const;
    /// Of row @p lod of a trace's level of detail; nothing, if it is hidden.
    [[nodiscard]] std::optional<std::size_t> rowOf(bool measured, std::size_t lod) const;
    /// The group of each rank of a trace.
    [[nodiscard]] const std::vector<std::uint32_t> &groupOfRank(bool measured) const
    {
        return m_groupOfRank[measured ? 1 : 0];
    }

private:
    /// Both traces, and whether rows of communication are shown.
    struct Content {
        const trace::Index &predicted;
        const trace::Index &measured;
        bool communication = true;
        [[nodiscard]] const trace::Index &of(bool isMeasured) const { return isMeasured ? measured : predicted; }
    };
    void addGroups(const Content &content, bool measured);
    /// The group that the other clock has for the device of @p rank; a new one if there is none.
    std::uint32_t groupFor(const Content &content, bool measured, std::int32_t rank);
    void addRows(const Content &content, std::uint32_t group, int &y);
    void addLane(const Content &content, std::uint32_t group, bool measured, std::int32_t lane, std::size_t &next,
                 std::size_t last, int &y);

    std::vector<Group> m_groups;
    std::vector<std::uint32_t> m_groupOfRank[2]; ///< per clock (measured: 1)
    std::vector<Row> m_rows;
    std::vector<std::int32_t> m_rowOfLod[2]; ///< per clock: index into m_rows; -1: hidden
    int m_height = 0;
};

} // namespace planloom::ui
