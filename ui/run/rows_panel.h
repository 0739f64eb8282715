// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QWidget>

#include "ui/run/folder_reader.h"
#include "ui/run/series_lines.h"
#include "ui/widgets/chart.h"

#include <array>
#include <vector>

class QLineSeries;

namespace planloom::ui {

/// A run that exchanges tables by rows: how many rows of a table the replicas looked up in each step, how many of these
/// were looked up in the next one and how many travelled a step later, beside what the plan expects. Knows no state;
/// reads files beside the UI thread when it is told to.
class RowsPanel final : public QWidget {
    Q_OBJECT

public:
    /// In the order of run::RowCounts.
    enum Count { Ids, Unique, Prior, Delayed, Counts };

    explicit RowsPanel(QWidget *parent = nullptr);
    /// What the run in @p folder has recorded; read again now and then, and once when it @p ended.
    void showRun(const QString &folder, bool ended);
    [[nodiscard]] bool reads() const { return m_reader.reads(); }
    [[nodiscard]] PlainChart *chart() { return m_chart; }
    [[nodiscard]] QComboBox *tables() { return m_tables; }
    [[nodiscard]] QLabel *textLabel() { return m_text; }
    [[nodiscard]] QLineSeries *line(Count count) { return m_lines[count]; }
    [[nodiscard]] QLineSeries *expected(Count count) { return m_expected[count]; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void take(std::vector<TableLines> tables, const QString &problem);
    void draw();
    void say(const TableLines &table);
    void applyColors();

    std::vector<TableLines> m_all;
    QComboBox *m_tables;
    QLabel *m_text;
    PlainChart *m_chart;
    std::array<QLineSeries *, Counts> m_lines{};
    std::array<QLineSeries *, Counts> m_expected{};
    FolderReader m_reader;
};

} // namespace planloom::ui
