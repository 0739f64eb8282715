// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QList>
#include <QPainter>
#include <QString>
#include <QWidget>

#include "ui/state/studio_state.h"

namespace planloom::ui {

/// One dockable view of the state. A view connects itself to the state's signals in its constructor, draws from
/// snapshots, and changes things only by the state's calls. It is made once and lives as long as the window.
class View : public QWidget {
    Q_OBJECT

public:
    explicit View(StudioState *state, QWidget *parent = nullptr) : QWidget(parent), m_state(state) {}
    [[nodiscard]] virtual QString title() const = 0;
    /// Commands of this view, for its menu and the command palette. Single-letter shortcuts must be
    /// WidgetWithChildrenShortcut.
    [[nodiscard]] virtual QList<QAction *> commands() const { return {}; }
    /// The widget that gets the keyboard focus when the user jumps to the view.
    [[nodiscard]] virtual QWidget *focusTarget() { return this; }
    /// Size of a picture of all that the view holds; by default of the view as it is seen.
    [[nodiscard]] virtual QSize pictureSize() const { return size(); }
    /// What that picture leaves out, or how much smaller it is drawn; empty: it is all there.
    [[nodiscard]] virtual QString pictureNote() const { return {}; }
    /// Paints that picture.
    virtual void paintPicture(QPainter &painter) { render(&painter); }

protected:
    [[nodiscard]] StudioState *state() const { return m_state; }

private:
    StudioState *m_state;
};

} // namespace planloom::ui
