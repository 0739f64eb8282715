// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QList>
#include <QPainter>
#include <QString>
#include <QWidget>

#include "ui/state/studio_state.h"
#include "ui/widgets/when_seen.h"

namespace planloom::ui {

/// One dockable view of the state. A view connects itself to the state's signals in its constructor, draws from
/// snapshots, and changes things only by the state's calls. It is made once and lives as long as the window. What it
/// does on every edit should go through a WhenSeen, so that it costs nothing out of sight.
class View : public QWidget {
    Q_OBJECT

public:
    explicit View(StudioState *state, QWidget *parent = nullptr) : QWidget(parent), m_state(state) {}
    /// A field that is being written in is taken over when the window goes: that must not reach a view that is half
    /// gone.
    ~View() override { qDeleteAll(findChildren<WhenSeen *>()); }
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
