// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/analysis_panel.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

namespace planloom::ui {

AnalysisPanel::AnalysisPanel(QWidget *parent)
    : QWidget(parent),
      m_title(new ElidedLabel(this)),
      m_clocks(new ElidedLabel(this)),
      m_align(new QPushButton(tr("Align clocks"), this)),
      m_what(new QComboBox(this)),
      m_save(new QPushButton(tr("Save as CSV…"), this)),
      m_table(new DataTable(this))
{
    auto *top = new QHBoxLayout;
    top->setContentsMargins(8, 2, 6, 2);
    top->addWidget(m_clocks, 1);
    top->addWidget(m_align);
    top->addWidget(m_what);
    top->addWidget(m_save);
    auto *close = new QPushButton(tr("Close"), this);
    close->setToolTip(tr("Hide the table (L)"));
    top->addWidget(close);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(top);
    m_title->setContentsMargins(8, 0, 8, 2);
    layout->addWidget(m_title);
    layout->addWidget(m_table, 1);
    m_what->addItems({tr("Late ranks"), tr("Collectives"), tr("Devices"), tr("Kernels")}); // by What
    m_what->setAccessibleName(tr("What the rows are"));
    m_table->setAccessibleName(tr("Findings in the trace"));
    m_align->setCheckable(true);
    m_align->setToolTip(tr("Move the files' times so that collectives end at the same time on all ranks; again: the "
                           "times of the files"));
    m_clocks->setToolTip(tr("By the ends of collectives, which are about the same on all members: median of the "
                            "differences, and its standard error"));
    m_save->setToolTip(tr("Write all rows to a file"));
    connect(m_what, &QComboBox::currentIndexChanged, this, &AnalysisPanel::fill);
    connect(m_align, &QPushButton::clicked, this, &AnalysisPanel::alignAsked);
    connect(m_save, &QPushButton::clicked, this, &AnalysisPanel::csvAsked);
    connect(close, &QPushButton::clicked, this, &AnalysisPanel::closeAsked);
    connect(m_table, &DataTable::rowPicked, this, &AnalysisPanel::onRow);
    setFindings(nullptr, false);
}

void AnalysisPanel::setFindings(FindingsPtr findings, bool isAligned)
{
    m_findings = std::move(findings);
    const bool isSkewed = m_findings && m_findings->skew.isSkewed();
    m_align->setVisible(isSkewed || isAligned);
    m_align->setChecked(isAligned);
    m_clocks->setText(!m_findings ? QString() : isAligned ? tr("clocks are aligned") : m_findings->skewText());
    fill();
}

void AnalysisPanel::setBusy() { m_title->setText(tr("Working out…")); }

void AnalysisPanel::fill()
{
    m_save->setEnabled(m_findings != nullptr);
    m_title->setText(m_findings ? m_findings->title(what()) : tr("There is no trace"));
    m_table->set(m_findings ? findingsTable(m_findings, what()) : TableData());
}

void AnalysisPanel::onRow(int row)
{
    if (!m_findings || row < 0)
        return;
    if (const auto collective = m_findings->collectiveOf(what(), row))
        return Q_EMIT collectivePicked(*collective);
    if (what() == What::Kernels && static_cast<std::size_t>(row) < m_findings->kernels.size())
        Q_EMIT kernelPicked(m_findings->kernels[static_cast<std::size_t>(row)].name);
}

void AnalysisPanel::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    Q_EMIT shown();
}

} // namespace planloom::ui
