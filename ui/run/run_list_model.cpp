// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/run_list_model.h"

#include "ui/widgets/text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planloom::ui {

namespace {

/// @p places, of which each has a key in @p keys, by these.
template <class Key>
void sortBy(std::vector<std::size_t> &places, const std::vector<Key> &keys, Qt::SortOrder order)
{
    if (order == Qt::AscendingOrder)
        std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
    else
        std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) { return keys[a] > keys[b]; });
}

} // namespace

void RunListModel::setRuns(std::vector<store::Run> runs)
{
    beginResetModel();
    m_runs = std::move(runs);
    arrange();
    endResetModel();
}

void RunListModel::setFilter(store::RunFilter filter)
{
    beginResetModel();
    m_filter = std::move(filter);
    arrange();
    endResetModel();
}

void RunListModel::annotate(const std::string &folder, const std::string &tags, const std::string &notes)
{
    const auto run = std::ranges::find(m_runs, folder, &store::Run::folder);
    if (run == m_runs.end())
        return;
    run->tags = tags;
    run->notes = notes;
    if (const int row = rowOf(folder); row >= 0)
        Q_EMIT dataChanged(index(row, 0), index(row, columnCount() - 1));
}

void RunListModel::sort(int column, Qt::SortOrder order)
{
    beginResetModel();
    m_column = column;
    m_order = order;
    arrange();
    endResetModel();
}

void RunListModel::arrange()
{
    m_shown.clear();
    for (std::size_t i = 0; i < m_runs.size(); ++i)
        if (m_filter.empty() || m_filter.matches(m_runs[i]))
            m_shown.push_back(i);
    if (m_column < 0 || m_column >= columnCount())
        return;
    const store::RunField &field = store::runFields()[static_cast<std::size_t>(m_column)];
    if (field.number == nullptr) {
        std::vector<std::string> texts;
        for (const store::Run &run : m_runs)
            texts.push_back(field.text(run));
        return sortBy(m_shown, texts, m_order);
    }
    std::vector<double> numbers;
    for (const store::Run &run : m_runs) {
        const double number = field.number(run);
        numbers.push_back(!std::isnan(number) ? number : m_order == Qt::AscendingOrder ? HUGE_VAL : -HUGE_VAL);
    }
    sortBy(m_shown, numbers, m_order);
}

int RunListModel::rowOf(const std::string &folder) const
{
    const auto found = std::ranges::find_if(m_shown, [&](std::size_t i) { return m_runs[i].folder == folder; });
    return found == m_shown.end() ? -1 : static_cast<int>(found - m_shown.begin());
}

int RunListModel::columnOf(std::string_view key)
{
    const auto &fields = store::runFields();
    const auto found = std::ranges::find_if(fields, [&](const store::RunField &field) { return field.key == key; });
    return static_cast<int>(found - fields.begin());
}

int RunListModel::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(m_shown.size());
}

int RunListModel::columnCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(store::runFields().size());
}

QVariant RunListModel::data(const QModelIndex &index, int role) const
{
    if (!index.isValid() || index.row() >= rowCount())
        return {};
    const store::RunField &field = store::runFields()[static_cast<std::size_t>(index.column())];
    const store::Run &run = this->run(index.row());
    switch (role) {
    case Qt::DisplayRole: return beginningOf(qt(store::textOf(field, run)));
    case Qt::TextAlignmentRole:
        return field.number != nullptr ? int(Qt::AlignRight | Qt::AlignVCenter) : int(Qt::AlignLeft | Qt::AlignVCenter);
    case Qt::ToolTipRole: {
        const bool failed = std::string_view(field.key) == "state" && !run.error.empty();
        return failed ? qt(run.error) : field.number == nullptr ? qt(field.text(run)) : qt(field.about);
    }
    default: return {};
    }
}

QVariant RunListModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section < 0 || section >= columnCount())
        return {};
    const store::RunField &field = store::runFields()[static_cast<std::size_t>(section)];
    switch (role) {
    case Qt::DisplayRole: return tr(field.title);
    case Qt::ToolTipRole: return tr("%1; in the filter: %2").arg(tr(field.about), qt(field.key));
    case Qt::TextAlignmentRole:
        return field.number != nullptr ? int(Qt::AlignRight | Qt::AlignVCenter) : int(Qt::AlignLeft | Qt::AlignVCenter);
    default: return {};
    }
}

} // namespace planloom::ui
