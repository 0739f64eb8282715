// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QHash>
#include <QKeySequence>
#include <QList>
#include <QString>
#include <QStringList>

#include "ui/shell/named_action.h"

#include <vector>

namespace planloom::ui {

/// Shortcuts of commands by the commands' names.
using Keys = QHash<QString, QList<QKeySequence>>;

/// The shortcuts of all commands: those of the program, and what the user has instead of them, which the settings keep.
/// Actions must outlive it. UI thread.
class KeyMap {
public:
    /// The shortcuts that @p actions have are the program's; those of the settings replace them at once.
    explicit KeyMap(std::vector<NamedAction> actions);

    [[nodiscard]] const std::vector<NamedAction> &actions() const { return m_actions; }
    [[nodiscard]] const Keys &keys() const { return m_keys; }
    [[nodiscard]] const Keys &programKeys() const { return m_programKeys; }
    /// Gives the actions these shortcuts and saves what differs from the program's.
    void use(const Keys &keys);
    /// Commands that one key of @p id would call as well, by their paths: neither would work. Keys of two views never
    /// meet, as only the view with the focus has its own.
    [[nodiscard]] QStringList conflicts(const Keys &keys, const QString &id) const;

private:
    std::vector<NamedAction> m_actions;
    Keys m_programKeys;
    Keys m_keys;
};

/// "Ctrl+Shift+Z, Ctrl+Y" as the platform writes keys.
QString keysText(const QList<QKeySequence> &keys);

} // namespace planloom::ui
