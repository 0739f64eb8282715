// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QPushButton>
#include <QTimer>
#include <QWidget>

#include "ui/state/selection.h"
#include "ui/timeline/name_statistics.h"
#include "ui/timeline/range_statistics.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/elided_label.h"

#include <optional>
#include <string>

namespace planloom::ui {

/// The range of time that is selected, or all, as a table: by device, lane, kind and stage, or by name of task or
/// kernel. Sorted by a click on a header; Ctrl+C copies rows; a button writes all as CSV. Out of sight it works nothing
/// out.
class RangePanel final : public QWidget {
    Q_OBJECT

public:
    explicit RangePanel(const TimelineModel &model, QWidget *parent = nullptr);
    /// Of @p range of the model as it is now; without a range of all of it.
    void showRange(const std::optional<TimeRange> &range);
    void setByName(bool byName) { m_how->setCurrentIndex(byName ? 1 : 0); }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] QString title() const { return m_title->text(); }
    /// All rows with a header; times in seconds, "" where a figure does not apply.
    [[nodiscard]] std::string csv() const;

Q_SIGNALS:
    void closeAsked();
    void csvAsked();

protected:
    void showEvent(QShowEvent *event) override;

private:
    void begin();
    void work();
    void fill();
    [[nodiscard]] TableData kinds() const;
    [[nodiscard]] TableData names() const;
    [[nodiscard]] std::string namesCsv() const;
    [[nodiscard]] std::vector<Cell> cellsOf(const RangeStatistics::Entry &entry) const;

    const TimelineModel &m_model;
    std::optional<TimeRange> m_range;
    std::optional<RangeStatistics> m_statistics;
    std::optional<NameStatistics> m_names; ///< in its place
    ElidedLabel *m_title;
    QComboBox *m_how;
    QPushButton *m_save;
    DataTable *m_table;
    QTimer m_timer; ///< works in pieces
    bool m_stale = true;
};

} // namespace planloom::ui
