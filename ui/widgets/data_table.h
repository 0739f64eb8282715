// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QColor>
#include <QSortFilterProxyModel>
#include <QString>
#include <QStringList>
#include <QTableView>
#include <QVariant>

#include <optional>
#include <vector>

namespace planloom::ui {

/// One cell: what is shown, and by what it sorts (the text, if no number is given).
struct Cell {
    QString text;
    std::optional<double> number;
    QColor swatch{};    ///< a small square of this colour before the text
    bool warn = false;  ///< in the theme's error colour, with a "!" before it
    double bar = -1;    ///< 0..1: a bar of this share behind the text
    QString toolTip{};
    bool editable = false;      ///< typing into it emits edited()
    std::optional<bool> check{}; ///< a box before the text, which a click turns over
};

struct TableData {
    QStringList headers;
    std::vector<std::vector<Cell>> rows;
};

/// A table of plain values. set() keeps the view's selection where row counts stay the same.
class TableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    static constexpr int kNumberRole = Qt::UserRole + 1;
    static constexpr int kBarRole = Qt::UserRole + 2;

    using QAbstractTableModel::QAbstractTableModel;
    void set(TableData data);
    [[nodiscard]] const TableData &table() const { return m_data; }
    [[nodiscard]] int rowCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex &index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    [[nodiscard]] Qt::ItemFlags flags(const QModelIndex &index) const override;
    bool setData(const QModelIndex &index, const QVariant &value, int role) override;

Q_SIGNALS:
    /// What a person typed (text) or clicked (bool). The table itself stays as it is until set() says otherwise.
    void edited(int row, int column, const QVariant &value);

private:
    TableData m_data;
};

/// A sortable, filterable view of a TableModel. Ctrl+C copies the selected rows, tab-separated, with the headers.
class DataTable : public QTableView {
    Q_OBJECT

public:
    explicit DataTable(QWidget *parent = nullptr);
    void set(TableData table);
    void setFilter(const QString &text); ///< rows with a cell that contains it, whatever the case
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
    TableModel m_model;
    QSortFilterProxyModel m_proxy;
    bool m_quiet = false;
};

} // namespace planloom::ui
