// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/data_table.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QPainter>
#include <QStyledItemDelegate>

#include <algorithm>
#include <tuple>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kRowHeight = 24;
constexpr int kRowsAtOnce = 4000; ///< about 8 ms
constexpr int kMeasuredRows =
    200; // tables that grow by the second: wider columns are looked for in the small ones only

QString shownText(const Cell &cell) { return cell.warn ? QStringLiteral("! ") + cell.text : cell.text; }

/// Draws the share bar behind a cell's text.
class BarDelegate final : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter *painter, const QStyleOptionViewItem &option, const QModelIndex &index) const override
    {
        const double bar = index.data(TableModel::kBarRole).toDouble();
        if (bar > 0 && !(option.state & QStyle::State_Selected)) {
            QRect share = option.rect.adjusted(1, 3, -1, -3);
            share.setWidth(static_cast<int>(share.width() * std::min(bar, 1.0)));
            QColor color = theme().ofSeries(0);
            color.setAlpha(70);
            painter->fillRect(share, color);
        }
        QStyledItemDelegate::paint(painter, option, index);
    }
    /// What has been typed stays when the table gets other values meanwhile, as behind a simulation that ends.
    void setEditorData(QWidget *editor, const QModelIndex &index) const override
    {
        if (const auto *line = qobject_cast<QLineEdit *>(editor); !line || !line->isModified())
            QStyledItemDelegate::setEditorData(editor, index);
    }
};

} // namespace

void TableModel::set(TableData data)
{
    m_made = 0;
    if (data.headers == m_data.headers && data.rows.size() == m_data.rows.size()) {
        m_data = std::move(data);
        if (!m_data.rows.empty())
            Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
        return;
    }
    beginResetModel();
    m_data = std::move(data);
    endResetModel();
}

int TableModel::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(m_data.rows.size());
}

int TableModel::columnCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(m_data.headers.size());
}

const std::vector<Cell> &TableModel::row(int row) const
{
    const auto index = static_cast<std::size_t>(row);
    std::vector<Cell> &cells = m_data.rows[index];
    if (cells.empty() && m_data.makeRow)
        cells = m_data.makeRow(index);
    return cells;
}

bool TableModel::makeRows(int count)
{
    if (!m_data.makeRow)
        return true;
    for (const int end = std::min(rowCount(), m_made + count); m_made < end; ++m_made)
        std::ignore = row(m_made);
    return m_made == rowCount();
}

bool TableModel::contains(int row, const QString &text) const
{
    return std::ranges::any_of(this->row(row), [&text](const Cell &cell) {
        return shownText(cell).contains(text, Qt::CaseInsensitive);
    });
}

QVariant TableModel::data(const QModelIndex &index, int role) const
{
    const auto &row = this->row(index.row());
    const auto column = static_cast<std::size_t>(index.column());
    if (column >= row.size())
        return {};
    const Cell &cell = row[column];
    switch (role) {
    case Qt::DisplayRole: return beginningOf(shownText(cell));
    case Qt::EditRole: return cell.text;
    case Qt::CheckStateRole: return cell.check ? QVariant(*cell.check ? Qt::Checked : Qt::Unchecked) : QVariant();
    case Qt::ToolTipRole: return cell.toolTip.isEmpty() ? QVariant() : QVariant(cell.toolTip);
    case Qt::DecorationRole: return cell.swatch.isValid() ? QVariant(cell.swatch) : QVariant();
    case Qt::ForegroundRole: return cell.warn ? QVariant(theme().error) : QVariant();
    case Qt::TextAlignmentRole:
        return cell.number ? int(Qt::AlignRight | Qt::AlignVCenter) : int(Qt::AlignLeft | Qt::AlignVCenter);
    case kNumberRole: return cell.number ? QVariant(*cell.number) : QVariant(cell.text);
    case kBarRole: return cell.bar;
    default: return {};
    }
}

QVariant TableModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation == Qt::Horizontal && role == Qt::TextAlignmentRole && rowCount() > 0)
        return data(index(0, section), role); // headers stand above their figures
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return QAbstractTableModel::headerData(section, orientation, role);
    return m_data.headers.value(section);
}

Qt::ItemFlags TableModel::flags(const QModelIndex &index) const
{
    Qt::ItemFlags flags = QAbstractTableModel::flags(index);
    if (!index.isValid())
        return flags;
    const auto &row = this->row(index.row());
    const auto column = static_cast<std::size_t>(index.column());
    if (column >= row.size())
        return flags;
    flags.setFlag(Qt::ItemIsEditable, row[column].editable);
    flags.setFlag(Qt::ItemIsUserCheckable, row[column].check.has_value());
    return flags;
}

bool TableModel::setData(const QModelIndex &index, const QVariant &value, int role)
{
    const auto &row = this->row(index.row());
    const auto column = static_cast<std::size_t>(index.column());
    if (column >= row.size())
        return false;
    const Cell &cell = row[column];
    if (role == Qt::CheckStateRole && cell.check)
        Q_EMIT edited(index.row(), index.column(), value.toInt() == Qt::Checked);
    else if (role == Qt::EditRole && cell.editable && value.toString() != cell.text)
        Q_EMIT edited(index.row(), index.column(), value);
    return true;
}

void TableFilter::setText(const QString &text)
{
    m_text = text;
    invalidateRowsFilter();
}

bool TableFilter::filterAcceptsRow(int row, const QModelIndex &) const
{
    return m_text.isEmpty() || m_model.contains(row, m_text);
}

DataTable::DataTable(QWidget *parent) : QTableView(parent)
{
    m_proxy.setSourceModel(&m_model);
    m_proxy.setSortRole(TableModel::kNumberRole);
    setModel(&m_proxy);
    setItemDelegate(new BarDelegate(this));
    setSelectionBehavior(SelectRows);
    setEditTriggers(DoubleClicked | EditKeyPressed);
    setAlternatingRowColors(true);
    setWordWrap(false);
    setShowGrid(false);
    setTabKeyNavigation(false);
    verticalHeader()->hide();
    verticalHeader()->setDefaultSectionSize(kRowHeight);
    horizontalHeader()->setStretchLastSection(true);
    horizontalHeader()->setResizeContentsPrecision(kMeasuredRows);
    horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    setSortingEnabled(true);
    sortByColumn(-1, Qt::AscendingOrder);
}

void DataTable::set(TableData table)
{
    const bool other = table.headers != m_model.headers() || static_cast<int>(table.rows.size()) != m_model.rowCount();
    // A filter needs every row: of a long table they are made in pieces again, and it is unfiltered until then.
    const bool later = !m_filter.isEmpty() && table.rows.size() > kRowsAtOnce;
    m_quiet = true;
    if (later)
        m_proxy.setText({});
    m_model.set(std::move(table));
    m_quiet = false;
    if (later)
        applyFilter();
    if (other)
        return resizeColumnsToContents();
    constexpr int kSpare = 8;
    for (int column = 0; column < m_model.columnCount() && m_model.rowCount() <= kMeasuredRows; ++column) {
        if (sizeHintForColumn(column) > columnWidth(column))
            setColumnWidth(column, sizeHintForColumn(column) + kSpare);
    }
}

void DataTable::setFilter(const QString &text)
{
    m_filter = text;
    applyFilter();
}

void DataTable::applyFilter()
{
    if (!m_filter.isEmpty() && !m_model.makeRows(kRowsAtOnce))
        QMetaObject::invokeMethod(this, &DataTable::applyFilter, Qt::QueuedConnection);
    else
        m_proxy.setText(m_filter);
}

int DataTable::sourceRow(const QModelIndex &index) const
{
    return index.isValid() ? m_proxy.mapToSource(index).row() : -1;
}

void DataTable::showRow(int row)
{
    if (row == sourceRow(currentIndex()))
        return;
    m_quiet = true;
    const QModelIndex index =
        row < 0 || row >= m_model.rowCount() ? QModelIndex() : m_proxy.mapFromSource(m_model.index(row, 0));
    if (index.isValid())
        setCurrentIndex(index);
    else
        clearSelection();
    m_quiet = false;
}

QString DataTable::selectionAsText() const
{
    QStringList lines{m_model.headers().join(QLatin1Char('\t'))};
    QModelIndexList picked = selectionModel()->selectedRows();
    std::sort(picked.begin(), picked.end(),
              [](const QModelIndex &a, const QModelIndex &b) { return a.row() < b.row(); });
    for (const QModelIndex &index : std::as_const(picked)) {
        QStringList cells;
        for (const Cell &cell : m_model.row(sourceRow(index)))
            cells << cell.text;
        lines << cells.join(QLatin1Char('\t'));
    }
    return lines.join(QLatin1Char('\n'));
}

void DataTable::keyPressEvent(QKeyEvent *event)
{
    if (!event->matches(QKeySequence::Copy))
        return QTableView::keyPressEvent(event);
    QApplication::clipboard()->setText(selectionAsText());
}

void DataTable::currentChanged(const QModelIndex &current, const QModelIndex &previous)
{
    QTableView::currentChanged(current, previous);
    if (!m_quiet && current.isValid())
        Q_EMIT rowPicked(sourceRow(current));
}

} // namespace planloom::ui
