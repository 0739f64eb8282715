// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QString>

namespace planloom::ui {

/// A command of a menu or of a view. Its action's object name ("plan.find", "timeline.zoom-in") stays when its text
/// changes: shortcuts are saved by it, and scripts call it.
struct NamedAction {
    QAction *action = nullptr;
    QString path; ///< "Plan ▸ Find a plan…"
    QString view; ///< dock whose view it belongs to; empty: the window's

    [[nodiscard]] QString id() const { return action->objectName(); }
    /// It opens a dialog: text that ends so says it.
    [[nodiscard]] bool asks() const { return action->text().endsWith(QChar(0x2026)); }
};

/// A name of letters, digits and hyphens made of @p text: "Zoom in" becomes "zoom-in".
QString actionName(const QString &text);

} // namespace planloom::ui
