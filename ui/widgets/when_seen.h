// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QPointer>

#include <functional>

class QDockWidget;
class QWidget;

namespace planloom::ui {

/// Work that brings a widget up to date, done only while the widget is in sight: not on a tab or in a dock behind
/// another. Out of sight, ask() notes that the widget is stale; the work is done once when the widget comes into sight,
/// however often it was asked for. Works of one widget run in the order in which they were made. UI thread only.
class WhenSeen final : public QObject {
    Q_OBJECT

public:
    /// @p widget owns it.
    WhenSeen(QWidget *widget, std::function<void()> work);
    /// Does the work now if the widget is in sight, otherwise later.
    void ask();
    [[nodiscard]] bool stale() const { return m_stale; }
    /// How often the work was done.
    [[nodiscard]] int runs() const { return m_runs; }
    /// Does what waits for @p whole and for what is shown in it: for pictures of widgets that are out of sight.
    static void catchUp(QWidget *whole);

protected:
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    [[nodiscard]] bool inSight() const;
    void run();
    void onDock(bool visible);
    static void runAllOf(QWidget *widget);

    QWidget *m_widget;
    std::function<void()> m_work;
    QPointer<QDockWidget> m_dock; ///< that was seen to hide the widget behind another dock
    bool m_stale = false;
    int m_runs = 0;
};

} // namespace planloom::ui
