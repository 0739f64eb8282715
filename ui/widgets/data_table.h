// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QColor>
#include <QSortFilterProxyModel>
#include <QString>
#include <QStringList>
#include <QTableView>
#include <QVariant>

#include <functional>
#include <optional>
#include <vector>

namespace planloom::ui {

/// One cell: its text, and its sort key (the text, if no number is given).
struct Cell {
    QString text;
    std::optional<double> number;
    QColor swatch{};   ///< a small square of this colour before the text
    bool warn = false; ///< in the theme's error colour, with a "!" before it
    double bar = -1;   ///< 0..1: a bar of this share behind the text
    QString toolTip{};
    bool editable = false;       ///< typing into it emits edited()
    std::optional<bool> check{}; ///< a box before the text, which a click turns over
};

/// The contents of a TableModel.
struct TableData {
    QStringList headers;
    std::vector<std::vector<Cell>> rows;
    /// Makes a row of which `rows` has no cells, when it is first shown: of tens of thousands a few are visible.
    std::function<std::vector<Cell>(std::size_t)> makeRow{};
};

/// A table of plain values. set() keeps the view's selection where row counts stay the same.
class TableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    static constexpr int kNumberRole = Qt::UserRole + 1;
    static constexpr int kBarRole = Qt::UserRole + 2;

    using QAbstractTableModel::QAbstractTableModel;
    void set(TableData data);
    [[nodiscard]] const QStringList &headers() const { return m_data.headers; }
    [[nodiscard]] const std::vector<Cell> &row(int row) const;
    /// Makes up to @p count rows that are still missing. True if none is.
    bool makeRows(int count);
    /// Whether a cell's text contains @p text, whatever the case.
    [[nodiscard]] bool contains(int row, const QString &text) const;
    [[nodiscard]] int rowCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex &index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    [[nodiscard]] Qt::ItemFlags flags(const QModelIndex &index) const override;
    bool setData(const QModelIndex &index, const QVariant &value, int role) override;

Q_SIGNALS:
    /// The user's text or click (bool). The table itself does not change until set().
    void edited(int row, int column, const QVariant &value);

private:
    mutable TableData m_data; ///< rows are made when first shown
    int m_made = 0;           ///< so many rows at the beginning are there
};

/// Rows of a TableModel with a cell that contains a text.
class TableFilter final : public QSortFilterProxyModel {
public:
    explicit TableFilter(const TableModel &model) : m_model(model) {}
    void setText(const QString &text);

protected:
    [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex &parent) const override;

private:
    const TableModel &m_model;
    QString m_text;
};

/// A sortable, filterable view of a TableModel. Ctrl+C copies the selected rows, tab-separated, with the headers.
class DataTable : public QTableView {
    Q_OBJECT

public:
    explicit DataTable(QWidget *parent = nullptr);
    void set(TableData table);
    /// Rows with a cell that contains it, whatever the case. Of many rows that are still to be made, a little later.
    void setFilter(const QString &text);
    [[nodiscard]] int sourceRow(const QModelIndex &index) const; ///< row of TableData; -1: none
    /// Selects and shows a row of TableData without activated() being sent; -1 clears.
    void showRow(int row);
    [[nodiscard]] QString selectionAsText() const;
    [[nodiscard]] TableModel *tableModel() { return &m_model; }

Q_SIGNALS:
    void rowPicked(int row); ///< by mouse or keyboard; row of TableData

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void currentChanged(const QModelIndex &current, const QModelIndex &previous) override;

private:
    void applyFilter();

    TableModel m_model;
    TableFilter m_proxy{m_model};
    QString m_filter;
    bool m_quiet = false;
};

} // namespace planloom::ui
