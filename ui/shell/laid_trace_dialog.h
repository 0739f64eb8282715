// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/overlay/overlay.h"
#include "ui/widgets/data_table.h"

#include <QDialog>
#include <QLabel>
#include <QTabWidget>

#include <memory>

namespace planloom::ui {

/// How another program's trace lies over the plan: how sure that is, predicted against measured by layer and by kind,
/// and what has no counterpart on either side.
class LaidTraceDialog final : public QDialog {
    Q_OBJECT

public:
    explicit LaidTraceDialog(const overlay::Overlay &laid, QWidget *parent = nullptr);

    [[nodiscard]] QString summary() const { return m_summary->text(); }
    [[nodiscard]] DataTable *table(int tab) const { return static_cast<DataTable *>(m_tabs->widget(tab)); }
    [[nodiscard]] QTabWidget *tabs() const { return m_tabs; }

private:
    QLabel *m_summary;
    QTabWidget *m_tabs;
};

} // namespace planloom::ui
