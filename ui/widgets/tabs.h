// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QTabWidget>

namespace planloom::ui {

/// Leaves a tab bar alone that says so already: QTabWidget::setTabText() lays out and paints all tabs.
inline void setTabText(QTabWidget &tabs, int index, const QString &text)
{
    if (tabs.tabText(index) != text)
        tabs.setTabText(index, text);
}

} // namespace planloom::ui
