// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/key_map.h"

#include <QSettings>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {

const QString kKeysGroup = QStringLiteral("keys");

/// Equal, or the one begins with the other, which would then never be reached.
bool meet(const QKeySequence &a, const QKeySequence &b)
{
    return !a.isEmpty() && !b.isEmpty()
        && (a.matches(b) != QKeySequence::NoMatch || b.matches(a) != QKeySequence::NoMatch);
}

bool anyMeet(const QList<QKeySequence> &a, const QList<QKeySequence> &b)
{
    return std::any_of(a.begin(), a.end(), [&](const QKeySequence &one) {
        return std::any_of(b.begin(), b.end(), [&](const QKeySequence &other) { return meet(one, other); });
    });
}

bool worksInItsViewOnly(const NamedAction &action)
{
    const Qt::ShortcutContext context = action.action->shortcutContext();
    return context == Qt::WidgetShortcut || context == Qt::WidgetWithChildrenShortcut;
}

} // namespace

KeyMap::KeyMap(std::vector<NamedAction> actions) : m_actions(std::move(actions))
{
    for (const NamedAction &each : m_actions)
        m_programKeys[each.id()] = each.action->shortcuts();
    m_keys = m_programKeys;
    QSettings settings;
    settings.beginGroup(kKeysGroup);
    for (const NamedAction &each : m_actions) {
        if (!settings.contains(each.id()))
            continue;
        m_keys[each.id()] =
            QKeySequence::listFromString(settings.value(each.id()).toString(), QKeySequence::PortableText);
        each.action->setShortcuts(m_keys[each.id()]);
    }
}

void KeyMap::use(const Keys &keys)
{
    QSettings settings;
    settings.beginGroup(kKeysGroup);
    for (const NamedAction &each : m_actions) {
        const QString id = each.id();
        const QList<QKeySequence> now = keys.value(id);
        m_keys[id] = now;
        each.action->setShortcuts(now);
        if (now == m_programKeys[id])
            settings.remove(id);
        else
            settings.setValue(id, QKeySequence::listToString(now, QKeySequence::PortableText));
    }
}

QStringList KeyMap::conflicts(const Keys &keys, const QString &id) const
{
    const auto self =
        std::find_if(m_actions.begin(), m_actions.end(), [&](const auto &each) { return each.id() == id; });
    if (self == m_actions.end() || keys.value(id).isEmpty())
        return {};
    QStringList found;
    for (const NamedAction &other : m_actions) {
        const bool apart = worksInItsViewOnly(*self) && worksInItsViewOnly(other) && self->view != other.view;
        if (other.action != self->action && !apart && anyMeet(keys.value(id), keys.value(other.id())))
            found << other.path;
    }
    return found;
}

QString keysText(const QList<QKeySequence> &keys)
{
    QStringList texts;
    for (const QKeySequence &each : keys)
        if (!each.isEmpty())
            texts << each.toString(QKeySequence::NativeText);
    return texts.join(QStringLiteral(", "));
}

} // namespace planloom::ui
