// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QPushButton>
#include <QWidget>

#include "ui/timeline/trace_findings.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/elided_label.h"

#include <memory>
#include <string>

namespace planloom::ui {

/// Late ranks, collectives, devices and kernels of a trace as tables, with a button that puts the clocks of several
/// files right. Shows what it is given; TraceAnalysis works it out.
class AnalysisPanel final : public QWidget {
    Q_OBJECT

public:
    using What = TraceFindings::What;

    explicit AnalysisPanel(QWidget *parent = nullptr);
    /// Null: there is no trace. @p isAligned: its clocks have been put right.
    void setFindings(FindingsPtr findings, bool isAligned);
    void setBusy();
    /// In the place of the line above the table, until the next setFindings().
    void say(const QString &text) { m_title->setText(text); }
    void setWhat(What what) { m_what->setCurrentIndex(static_cast<int>(what)); }
    [[nodiscard]] What what() const { return static_cast<What>(m_what->currentIndex()); }
    [[nodiscard]] const FindingsPtr &findings() const { return m_findings; }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] QPushButton *alignButton() { return m_align; }
    [[nodiscard]] QString title() const { return m_title->text(); }
    [[nodiscard]] QString clocks() const { return m_clocks->text(); }
    [[nodiscard]] std::string csv() const { return m_findings ? findingsCsv(m_findings, what()) : std::string(); }

Q_SIGNALS:
    void shown(); ///< came into sight
    void closeAsked();
    void csvAsked();
    void alignAsked(bool align);
    void collectivePicked(std::size_t collective); ///< of findings()
    void kernelPicked(const std::string &name);

protected:
    void showEvent(QShowEvent *event) override;

private:
    void fill();
    void onRow(int row);

    FindingsPtr m_findings;
    ElidedLabel *m_title;
    ElidedLabel *m_clocks;
    QPushButton *m_align;
    QComboBox *m_what;
    QPushButton *m_save;
    DataTable *m_table;
};

} // namespace planloom::ui
