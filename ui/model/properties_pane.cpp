// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/properties_pane.h"

#include <QHeaderView>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {
namespace {

constexpr int kPropertyRow = 20;

} // namespace

PropertiesPane::PropertiesPane(QWidget *parent)
    : QWidget(parent),
      m_title(new ElidedLabel(this)),
      m_hint(
          new QLabel(tr("Click a box of the graph, or go to one with the arrow keys, to see its properties."), this)),
      m_table(new DataTable(this))
{
    QFont bold = font();
    bold.setBold(true);
    m_title->setFont(bold);
    m_title->setAccessibleName(tr("Selected box"));
    m_hint->setWordWrap(true);
    m_hint->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    m_hint->setMinimumHeight(0);
    m_hint->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Ignored);
    m_table->setAccessibleName(tr("Properties of the selected box"));
    m_table->setSortingEnabled(false);
    m_table->horizontalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(kPropertyRow);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_title);
    layout->addWidget(m_hint, 1);
    layout->addWidget(m_table, 1);
    clear();
    m_table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff); // long values are whole in their tool tips
}

void PropertiesPane::showBox(const QString &title, const std::vector<BoxProperty> &rows)
{
    TableData table{{tr("Property"), tr("Value")}, {}};
    for (const BoxProperty &row : rows)
        table.rows.push_back({{row.name, {}}, {row.value, {}, {}, false, -1, row.value}});
    m_title->setText(title);
    m_table->set(std::move(table));
    m_title->setVisible(true);
    m_table->setVisible(true);
    m_hint->setVisible(false);
    limitNames();
}

void PropertiesPane::clear()
{
    m_table->set({{tr("Property"), tr("Value")}, {}});
    m_title->setVisible(false);
    m_table->setVisible(false);
    m_hint->setVisible(true);
}

/// Values have at least half of the width. The table itself is as wide as before until it is laid out.
void PropertiesPane::limitNames()
{
    constexpr int kAround = 24; // margins, frame and scroll bar
    m_table->resizeColumnToContents(0);
    m_table->setColumnWidth(0, std::min(m_table->columnWidth(0), std::max(0, width() - kAround) / 2));
    QHeaderView *header = m_table->horizontalHeader(); // a long value has widened the last column: stretch it again
    header->setStretchLastSection(false);
    m_table->setColumnWidth(1, 0);
    header->setStretchLastSection(true);
}

void PropertiesPane::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    limitNames();
}

} // namespace planloom::ui
