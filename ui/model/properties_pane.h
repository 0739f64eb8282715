// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QWidget>

#include "ui/model/box_properties.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/elided_label.h"

#include <vector>

namespace planloom::ui {

/// Properties of one box in rows of name and value; Ctrl+C copies the selected ones. Without a box it says how to
/// select one.
class PropertiesPane final : public QWidget {
    Q_OBJECT

public:
    explicit PropertiesPane(QWidget *parent = nullptr);
    void showBox(const QString &title, const std::vector<BoxProperty> &rows);
    void clear();
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {120, 60}; }
    [[nodiscard]] QSize sizeHint() const override { return {230, 160}; }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    void limitNames();

    ElidedLabel *m_title;
    QLabel *m_hint;
    DataTable *m_table;
};

} // namespace planloom::ui
