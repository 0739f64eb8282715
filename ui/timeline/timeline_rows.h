// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/index.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::ui {

/// Which rows to show, and where: by names, so that it outlives the traces.
struct RowChoices {
    struct Lane {
        std::string device;
        std::string lane; ///< its name
        bool measured = false;
        friend auto operator<=>(const Lane &, const Lane &) = default;
    };
    bool communication = true;
    std::set<std::string> hiddenDevices;
    std::set<Lane> hiddenLanes;
    std::set<std::string> pinned;           ///< devices that stand above the others and do not scroll
    std::set<std::string> collapsedNodes;   ///< of their devices the compute lanes are shown, as thin lines
    std::set<std::int32_t> collapsedStages; ///< likewise

    /// True if some row is hidden, moved or thin.
    [[nodiscard]] bool any() const
    {
        return !(hiddenDevices.empty() && hiddenLanes.empty() && pinned.empty() && collapsedNodes.empty()
                 && collapsedStages.empty());
    }
    friend bool operator==(const RowChoices &, const RowChoices &) = default;
};

/// The machine that a device is in, by its name: "n0" of "n0:g3"; the whole of a name without a colon.
std::string nodeOf(std::string_view device);

/// Where the rows of two traces stand, one below the other: a group for each device, in it lane by lane the predicted
/// rows above the measured ones.
class TimelineRows {
public:
    static constexpr int kComputeHeight = 24; ///< pixels
    static constexpr int kLaneHeight = 13;
    static constexpr int kRowGap = 2;
    static constexpr int kGroupGap = 10;
    static constexpr int kThinHeight = 5; ///< a row of a collapsed device
    static constexpr int kThinGap = 1;
    static constexpr int kHeading = 30; ///< at least, of what is collapsed together

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
        bool collapsed = false;
        std::string heading = {}; ///< of the first one of those that are collapsed together: "node n0: 8 devices"
    };
    using Range = std::pair<std::size_t, std::size_t>; ///< [first, last)

    /// Names of devices stay those of the indexes, which must outlive their use. Cost: O(rows).
    void layOut(const trace::Index &predicted, const trace::Index &measured, const RowChoices &choices);

    [[nodiscard]] const std::vector<Group> &groups() const { return m_groups; }
    [[nodiscard]] const std::vector<Row> &rows() const { return m_rows; }
    [[nodiscard]] int height() const { return m_height; }
    [[nodiscard]] int pinnedHeight() const { return m_pinnedHeight; } ///< of the rows above that do not scroll
    [[nodiscard]] std::size_t hiddenRows() const { return m_hidden; } ///< that RowChoices hides
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
    /// Both traces, and which of their rows are shown.
    struct Content {
        const trace::Index &predicted;
        const trace::Index &measured;
        const RowChoices &choices;
        [[nodiscard]] const trace::Index &of(bool isMeasured) const { return isMeasured ? measured : predicted; }
    };
    void addGroups(const Content &content, bool measured);
    /// The group that the other clock has for the device of @p rank; a new one if there is none.
    std::uint32_t groupFor(const Content &content, bool measured, std::int32_t rank);
    [[nodiscard]] std::string headingOf(const Content &content, const Group &group) const;
    std::vector<bool> orderGroups(const Content &content);
    void addRows(const Content &content, std::uint32_t group, int &y);
    void addLane(const Content &content, std::uint32_t group, bool measured, std::int32_t lane, std::size_t &next,
                 std::size_t last, int &y);

    std::vector<Group> m_groups;
    std::vector<std::uint32_t> m_groupOfRank[2]; ///< per clock (measured: 1)
    std::vector<Row> m_rows;
    std::vector<std::int32_t> m_rowOfLod[2]; ///< per clock: index into m_rows; -1: hidden
    int m_height = 0;
    int m_pinnedHeight = 0;
    std::size_t m_hidden = 0;
};

} // namespace planloom::ui
