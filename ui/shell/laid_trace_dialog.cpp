// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/laid_trace_dialog.h"

#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QHeaderView>
#include <QVBoxLayout>

#include <vector>

namespace planloom::ui {

namespace {

/// "–" where there is nothing.
Cell secondsCell(double seconds, bool isThere)
{
    return isThere ? Cell{secondsText(seconds), seconds} : Cell{QStringLiteral("–"), -1.0};
}

TableData rowsTable(const QString &what, const std::vector<overlay::Row> &rows)
{
    TableData table{{what, QObject::tr("Pass"), QObject::tr("Predicted"), QObject::tr("Measured"),
                     QObject::tr("Predicted / measured"), QObject::tr("Not found"), QObject::tr("Operators found")},
                    {}};
    for (const overlay::Row &row : rows) {
        const bool isFound = row.predicted > 0;
        table.rows.push_back({{qt(row.name), {}},
                              {qt(row.pass), {}},
                              secondsCell(row.predicted, isFound),
                              secondsCell(row.measured, isFound),
                              row.measured > 0 ? Cell{QString::number(row.ratio(), 'f', 2), row.ratio()}
                                               : Cell{QStringLiteral("–"), -1.0},
                              secondsCell(row.notFound, row.notFound > 0),
                              {QObject::tr("%1 of %2").arg(row.operators - row.missing).arg(row.operators),
                               static_cast<double>(row.operators - row.missing),
                               {},
                               row.missing > 0}});
    }
    return table;
}

TableData unmatchedTable(const QString &seconds, const std::vector<overlay::Unmatched> &list)
{
    TableData table{{QObject::tr("Name"), QObject::tr("Pass"), QObject::tr("A step"), seconds}, {}};
    for (const overlay::Unmatched &one : list)
        table.rows.push_back({{qt(one.name), {}},
                              {qt(one.pass), {}},
                              {QString::number(one.count), static_cast<double>(one.count)},
                              {secondsText(one.seconds), one.seconds}});
    return table;
}

QString summaryOf(const overlay::Overlay &laid)
{
    QStringList lines{QObject::tr("Trace of another program: %1").arg(qt(laid.file)), qt(overlay::confidenceText(laid)),
                      QObject::tr("A step: predicted %1, measured %2 (of %n steps)", nullptr,
                                  static_cast<int>(laid.steps))
                          .arg(secondsText(laid.predictedStep), secondsText(laid.measuredStep))};
    for (const overlay::Laid &process : laid.processes)
        lines << QObject::tr("%1 on %2: %3 of the operators, %4 of the time of %5")
                     .arg(qt(process.process),
                          process.devices.size() == 1 ? qt(process.devices.front())
                                                      : QObject::tr("%1 devices").arg(process.devices.size()),
                          percentText(process.found, 0), percentText(process.timeMatched, 0),
                          process.hasKernels ? QObject::tr("its GPU") : QObject::tr("its processor"));
    constexpr qsizetype kMostLines = 12;
    for (const std::string &note : laid.notes)
        lines << qt(note);
    if (lines.size() > kMostLines) {
        const qsizetype more = lines.size() - kMostLines;
        lines = lines.mid(0, kMostLines);
        lines << QObject::tr("and %1 more").arg(more);
    }
    return lines.join(QLatin1Char('\n'));
}

} // namespace

LaidTraceDialog::LaidTraceDialog(const overlay::Overlay &laid, QWidget *parent)
    : QDialog(parent),
      m_summary(new QLabel(summaryOf(laid), this)),
      m_tabs(new QTabWidget(this))
{
    setWindowTitle(tr("A trace over the plan"));
    m_summary->setTextFormat(Qt::PlainText);
    m_summary->setWordWrap(true);
    m_summary->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    m_summary->setAccessibleName(tr("How sure the matching is"));
    const auto add = [this](const QString &title, TableData rows) {
        auto *table = new DataTable(m_tabs);
        table->setAccessibleName(title);
        table->set(std::move(rows));
        table->resizeColumnsToContents();
        m_tabs->addTab(table, title);
    };
    add(tr("&Layers"), rowsTable(tr("Layer"), laid.layers));
    add(tr("&Kinds"), rowsTable(tr("Kind"), laid.kinds));
    add(tr("Only in the &trace (%1)").arg(laid.onlyInTrace.size()), unmatchedTable(tr("Measured"), laid.onlyInTrace));
    add(tr("Only in the &plan (%1)").arg(laid.onlyInPlan.size()), unmatchedTable(tr("Predicted"), laid.onlyInPlan));
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Close, this);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    auto *layout = new QVBoxLayout(this);
    layout->addWidget(m_summary);
    layout->addWidget(m_tabs, 1);
    layout->addWidget(buttons);
    resize(900, 600);
}

} // namespace planloom::ui
