// SPDX-License-Identifier: Apache-2.0
#include "engine/import/pytorch_schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>

namespace planloom::import {
namespace {

/// A cell that computes.
struct Cell {
    std::size_t stage = 0;
    char pass = 'F'; ///< F, B, I or W
    std::int64_t microBatch = 0;
};

std::string_view trimmed(std::string_view text)
{
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
    while (!text.empty() && blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && blank(text.back()))
        text.remove_suffix(1);
    return text;
}

template <class Number>
bool readNumber(std::string_view &text, Number &number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0)
        return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

/// Actions that a plan derives by itself: with a micro-batch, or of a whole stage.
bool isCommunication(std::string_view action)
{
    constexpr std::array<std::string_view, 4> kOfMicroBatch{"SEND_F", "RECV_F", "SEND_B", "RECV_B"};
    constexpr std::array<std::string_view, 3> kOfStage{"UNSHARD", "RESHARD", "REDUCE_GRAD"};
    if (std::find(kOfStage.begin(), kOfStage.end(), action) != kOfStage.end())
        return true;
    return std::any_of(kOfMicroBatch.begin(), kOfMicroBatch.end(), [action](std::string_view known) {
        std::string_view rest = action;
        std::int64_t microBatch = 0;
        if (!rest.starts_with(known))
            return false;
        rest.remove_prefix(known.size());
        return readNumber(rest, microBatch) && rest.empty();
    });
}

class Reader {
public:
    Reader(const std::string &name, const plan::Plan &plan, const cluster::Cluster &cluster)
        : m_name(name),
          m_plan(plan),
          m_cluster(cluster),
          m_groups(plan::stageGroups(plan)),
          m_taken(m_groups.size(), false)
    {
    }

    Result<plan::Schedule> read(std::string_view text)
    {
        std::vector<std::vector<Cell>> lines;
        for (std::size_t begin = 0; begin < text.size(); ++m_line) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            if (const Status done = readLine(text.substr(begin, end - begin), lines); !done)
                return done.error();
            begin = end + 1;
        }
        for (const std::vector<Cell> &cells : lines)
            for (const Cell &cell : cells)
                if (cell.pass == 'W' || cell.pass == 'I')
                    m_split.insert(cell.stage);
        plan::Schedule schedule;
        schedule.kind = plan::ScheduleKind::Custom;
        for (const std::vector<Cell> &cells : lines)
            if (const Status placed = place(cells, schedule); !placed)
                return placed.error();
        for (std::size_t group = 0; group < m_groups.size(); ++group)
            if (!m_taken[group])
                return badInput(fmt::format("{}: no line computes stage {}; the file is of another plan", m_name,
                                            m_groups[group].front()));
        return schedule;
    }

private:
    [[nodiscard]] Error wrong(std::string_view what) const
    {
        return badInput(fmt::format("{}:{}: {}", m_name, m_line, what));
    }

    Status readLine(std::string_view line, std::vector<std::vector<Cell>> &lines) const
    {
        std::vector<Cell> cells;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t comma = std::min(line.find(',', begin), line.size());
            const std::string_view text = trimmed(line.substr(begin, comma - begin));
            begin = comma + 1;
            if (text.empty())
                continue;
            if (const Status read = readCells(text, cells); !read)
                return read;
        }
        if (const Status letters = checkLetters(cells); !letters)
            return letters;
        if (!cells.empty())
            lines.push_back(std::move(cells));
        return {};
    }

    /// One action, or those between the brackets of "(0F1;1B0)OVERLAP_F_B".
    Status readCells(std::string_view text, std::vector<Cell> &cells) const
    {
        constexpr std::string_view kOverlap = ")OVERLAP_F_B";
        const bool together = text.starts_with('(') && text.ends_with(kOverlap);
        std::string_view rest = together ? text.substr(1, text.size() - 1 - kOverlap.size()) : text;
        while (true) {
            const std::size_t end = together ? std::min(rest.find(';'), rest.size()) : rest.size();
            const auto cell = readCell(trimmed(rest.substr(0, end)));
            if (!cell)
                return cell.error();
            if (*cell)
                cells.push_back(**cell);
            if (end == rest.size())
                return {};
            rest.remove_prefix(end + 1);
        }
    }

    /// In PyTorch 2.5, B stands for the gradients of inputs and BW for a whole backward.
    [[nodiscard]] Status checkLetters(const std::vector<Cell> &cells) const
    {
        std::set<std::pair<std::size_t, std::int64_t>> whole;
        for (const Cell &cell : cells) {
            const std::pair key(cell.stage, cell.microBatch);
            if (cell.pass == 'B')
                whole.insert(key);
            if (cell.pass == 'W' && whole.contains(key))
                return wrong(fmt::format("{}W{} follows {}B{}, which is the whole backward since PyTorch 2.6; if the "
                                         "file is of 2.5, write I for its B and B for its BW",
                                         cell.stage, cell.microBatch, cell.stage, cell.microBatch));
        }
        return {};
    }

    /// Nothing for cells that do not compute.
    [[nodiscard]] Result<std::optional<Cell>> readCell(std::string_view text) const
    {
        std::string_view rest = text;
        Cell cell;
        if (!readNumber(rest, cell.stage) || rest.empty())
            return wrong(
                fmt::format("\"{}\" is no action; write a stage, F, B, I or W, and a micro-batch, such as 0F3", text));
        if (isCommunication(rest))
            return std::optional<Cell>();
        cell.pass = rest.front();
        rest.remove_prefix(1);
        if (std::string_view("FBIW").find(cell.pass) == std::string_view::npos || !readNumber(rest, cell.microBatch)
            || !rest.empty())
            return wrong(
                fmt::format("\"{}\" is no action; write a stage, F, B, I or W, and a micro-batch, such as 0F3", text));
        if (cell.stage >= m_plan.stages.size())
            return wrong(fmt::format("\"{}\" is of stage {}, but the plan has {} stages", text, cell.stage,
                                     m_plan.stages.size()));
        if (cell.microBatch >= m_plan.microBatches)
            return wrong(
                fmt::format("\"{}\" is of micro-batch {}, but the plan has {}; set as many as the schedule is for",
                            text, cell.microBatch, m_plan.microBatches));
        return std::optional<Cell>(cell);
    }

    /// Gives a line to the devices that its stages lie on.
    Status place(const std::vector<Cell> &cells, plan::Schedule &schedule)
    {
        std::set<std::size_t> stages;
        for (const Cell &cell : cells)
            stages.insert(cell.stage);
        const std::vector<std::size_t> sorted(stages.begin(), stages.end());
        const auto found = std::find(m_groups.begin(), m_groups.end(), sorted);
        if (found == m_groups.end())
            return badInput(fmt::format("{}: a line computes stages {}, which in the plan are not those of one list of "
                                        "devices; give them the same devices, and no others",
                                        m_name, fmt::join(sorted, ", ")));
        const auto group = static_cast<std::size_t>(found - m_groups.begin());
        if (m_taken[group])
            return badInput(
                fmt::format("{}: two lines compute stage {}; all its replicas share one", m_name, sorted.front()));
        m_taken[group] = true;
        const std::vector<schedule::PassStep> order = steps(cells);
        for (const DeviceId device : m_plan.stages[sorted.front()].devices)
            schedule.order[m_cluster.device(device).name] = order;
        return {};
    }

    [[nodiscard]] std::vector<schedule::PassStep> steps(const std::vector<Cell> &cells) const
    {
        using schedule::Pass;
        std::vector<schedule::PassStep> order;
        for (const Cell &cell : cells) {
            const auto add = [&](Pass pass) {
                order.push_back(
                    {pass, static_cast<std::int32_t>(cell.microBatch), static_cast<std::int32_t>(cell.stage)});
            };
            add(cell.pass == 'F' ? Pass::Forward : cell.pass == 'W' ? Pass::WeightGradient : Pass::Backward);
            if (cell.pass == 'B' && m_split.contains(cell.stage)) // whole here and cut elsewhere: both halves in a row
                add(Pass::WeightGradient);
        }
        return order;
    }

    const std::string &m_name;
    const plan::Plan &m_plan;
    const cluster::Cluster &m_cluster;
    std::vector<std::vector<std::size_t>> m_groups;
    std::vector<bool> m_taken;
    std::set<std::size_t> m_split; ///< stages with backward passes in two halves
    std::size_t m_line = 1;
};

} // namespace

Result<plan::Schedule> readPytorchSchedule(std::string_view text, const std::string &name, const plan::Plan &plan,
                                           const cluster::Cluster &cluster)
{
    return Reader(name, plan, cluster).read(text);
}

} // namespace planloom::import
