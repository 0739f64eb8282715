// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>

#include "ui/shell/view.h"
#include "ui/widgets/data_table.h"

namespace planloom::ui {

class ModelView final : public View {
    Q_OBJECT

public:
    explicit ModelView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Model"); }
    [[nodiscard]] QWidget *focusTarget() override { return m_table; }

private:
    void refresh();
    void showSelection();

    QLabel *m_summary;
    QLineEdit *m_search;
    DataTable *m_table;
};

} // namespace planloom::ui
