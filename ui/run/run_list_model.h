// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>

#include "engine/store/run_fields.h"
#include "engine/store/run_filter.h"

#include <vector>

namespace planloom::ui {

/// The runs of a workspace: a column per field (store::runFields()), sorted and narrowed here, as texts are made for
/// the visible cells only. Sorting and filtering 10,000 runs takes milliseconds.
class RunListModel final : public QAbstractTableModel {
    Q_OBJECT

public:
    using QAbstractTableModel::QAbstractTableModel;
    void setRuns(std::vector<store::Run> runs);
    void setFilter(store::RunFilter filter);
    /// What the user notes of the run in @p folder; rows stay where they are.
    void annotate(const std::string &folder, const std::string &tags, const std::string &notes);
    [[nodiscard]] std::size_t total() const { return m_runs.size(); } ///< without the filter
    [[nodiscard]] const store::Run &run(int row) const { return m_runs[m_shown[static_cast<std::size_t>(row)]]; }
    /// The row with the run in @p folder; -1: none is shown.
    [[nodiscard]] int rowOf(const std::string &folder) const;
    /// Column of the field with @p key.
    [[nodiscard]] static int columnOf(std::string_view key);

    [[nodiscard]] int rowCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex &index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    /// A column of -1: the newest first. Fields that are not known come last.
    void sort(int column, Qt::SortOrder order) override;

private:
    void arrange();

    std::vector<store::Run> m_runs; ///< the newest first
    std::vector<std::size_t> m_shown;
    store::RunFilter m_filter;
    int m_column = -1;
    Qt::SortOrder m_order = Qt::AscendingOrder;
};

} // namespace planloom::ui
