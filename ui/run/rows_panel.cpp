// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/rows_panel.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLegend>
#include <QLegendMarker>
#include <QLineSeries>
#include <QLocale>
#include <QPen>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

constexpr std::array kOfCounts{&run::RowCounts::ids, &run::RowCounts::unique, &run::RowCounts::prior,
                               &run::RowCounts::delayed};
constexpr std::array kOfLines{&TableLines::ids, &TableLines::unique, &TableLines::prior, &TableLines::delayed};

QString countText(double count) { return QLocale(QLocale::English).toString(count, 'f', 0); }

} // namespace

RowsPanel::RowsPanel(QWidget *parent)
    : QWidget(parent),
      m_tables(new QComboBox(this)),
      m_text(new QLabel(this)),
      m_chart(new PlainChart(tr("Rows by step"), tr("step"), tr("rows of all replicas"), this)),
      m_reader(tr("Rows of tables"))
{
    const std::array names{tr("look-ups"), tr("rows"), tr("looked up in the next step, too"), tr("a step later")};
    m_tables->setAccessibleName(tr("Table"));
    m_tables->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    m_text->setWordWrap(true);
    m_text->setTextInteractionFlags(Qt::TextSelectableByMouse);
    for (int count = Ids; count < Counts; ++count) {
        const auto at = static_cast<std::size_t>(count);
        m_lines[at] = m_chart->addLine(names[at], count);
        m_expected[at] = m_chart->addLine(tr("%1, expected").arg(names[at]), count);
        for (QLegendMarker *marker : m_chart->chart()->legend()->markers(m_expected[at]))
            marker->setVisible(false);
    }
    auto *head = new QHBoxLayout;
    head->addWidget(m_tables, 0, Qt::AlignTop);
    head->addWidget(m_text, 1);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 2);
    layout->addLayout(head);
    layout->addWidget(m_chart, 1);
    applyColors();
    connect(m_tables, &QComboBox::currentIndexChanged, this, &RowsPanel::draw);
}

void RowsPanel::showRun(const QString &folder, bool ended)
{
    m_reader.ask(folder, ended, [this](const QString &from) -> Job::Completion {
        QString problem;
        std::vector<TableLines> tables = readTableLines(from, problem);
        return [this, tables = std::move(tables), problem] { take(tables, problem); };
    });
}

void RowsPanel::take(std::vector<TableLines> tables, const QString &problem)
{
    m_all = std::move(tables);
    const int shown = std::max(m_tables->currentIndex(), 0);
    const QSignalBlocker blocker(m_tables);
    m_tables->clear();
    for (const TableLines &table : m_all)
        m_tables->addItem(qt(table.of.table));
    m_tables->setCurrentIndex(m_all.empty() ? -1 : std::min(shown, m_tables->count() - 1));
    m_tables->setVisible(m_all.size() > 1);
    draw();
    if (!problem.isEmpty())
        m_text->setText(problem);
}

void RowsPanel::draw()
{
    const int shown = m_tables->currentIndex();
    const bool known = shown >= 0 && static_cast<std::size_t>(shown) < m_all.size();
    const TableLines none;
    const TableLines &table = known ? m_all[static_cast<std::size_t>(shown)] : none;
    const double last = std::max(1.0, table.lastStep);
    for (int count = Ids; count < Counts; ++count) {
        const auto at = static_cast<std::size_t>(count);
        const bool isSplit = count == Prior || count == Delayed;
        const bool has = known && (table.of.splits || !isSplit);
        const double level = table.of.expected.*kOfCounts[at];
        m_lines[at]->setVisible(has);
        m_expected[at]->setVisible(has && count != Ids); // as many as there are samples: no guess
        m_lines[at]->replace(table.*kOfLines[at]);
        m_expected[at]->replace(QList<QPointF>{{0, level}, {last, level}});
        for (QLegendMarker *marker : m_chart->chart()->legend()->markers(m_expected[at]))
            marker->setVisible(false);
    }
    m_chart->setRanges(last, table.most * 1.05);
    m_text->setText(tr("No rows were recorded."));
    if (known)
        say(table);
}

void RowsPanel::say(const TableLines &table)
{
    const run::RowCounts &mean = table.mean;
    QString text = tr("%1, a step on average, %2 replicas together: %3 look-ups, each replica's different rows %4 "
                      "(%5 of its look-ups)")
                       .arg(qt(table.of.table))
                       .arg(table.of.replicas)
                       .arg(countText(mean.ids), countText(mean.unique),
                            percentText(mean.ids > 0 ? mean.unique / mean.ids : 0, 0));
    const double share = mean.unique > 0 ? mean.prior / mean.unique : 0;
    if (table.of.splits)
        text += tr("; %1 of these (%2) are looked up in the next step, too, %3 travel a step later")
                    .arg(countText(mean.prior), percentText(share, 0), countText(mean.delayed));
    const run::RowCounts &expected = table.of.expected;
    text +=
        tr(". Dashed, expected %1: %2 rows")
            .arg(table.of.counted ? tr("by counts of the profile") : tr("by Zipf's law"), countText(expected.unique));
    if (table.of.splits && expected.unique > 0)
        text += tr(", %1 of them in the next step").arg(percentText(expected.prior / expected.unique, 0));
    m_text->setText(text + (table.of.counted ? tr(".") : tr("; planloom profile --plan --data counts them.")));
}

void RowsPanel::applyColors()
{
    const Theme &t = theme();
    for (int count = Ids; count < Counts; ++count) {
        const QColor color = count == Ids ? t.dimText : t.ofSeries(count - 1);
        m_lines[static_cast<std::size_t>(count)]->setPen(QPen(color, 2));
        m_expected[static_cast<std::size_t>(count)]->setPen(QPen(color, 1, Qt::DashLine));
    }
}

void RowsPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_expected.back())
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
