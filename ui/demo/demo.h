// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"

#include <functional>
#include <vector>

namespace planloom::ui {

/// What the demonstration plans and trains.
struct DemoOptions {
    QString folder; ///< where pictures, plan and trace go; exists
    QString model = QStringLiteral("zoo:gpt-nano");
    QString cluster = QStringLiteral("local:4");
    QString data; ///< text to train on
    std::int64_t batch = 8;
    std::int64_t steps = 12;
    int pauseMilliseconds = 0; ///< between two acts, for people who watch
};

/// Plays the acts one after the other: starts one, waits until it is done, goes on.
class Demo final : public QObject {
    Q_OBJECT

public:
    Demo(StudioState *state, MainWindow *window, DemoOptions options, QObject *parent = nullptr);
    void start();
    [[nodiscard]] QString failure() const { return m_failure; } ///< empty: all went well so far

Q_SIGNALS:
    void finished(bool ok);

private:
    struct Act {
        QString name;
        std::function<void()> begin;
        std::function<bool()> done;
    };
    void writeActs();
    void writePlanningActs();
    void writeRunActs();
    void poll();
    void next();
    void fail(const QString &why);
    void moveBoundary();
    void picture(QWidget *widget, const QString &name);
    void pictures();
    void exportEverything();

    StudioState *m_state;
    MainWindow *m_window;
    DemoOptions m_options;
    std::vector<Act> m_acts;
    std::size_t m_act = 0;
    QTimer m_poll;
    QElapsedTimer m_sinceBegin;
    QElapsedTimer m_sinceDone;
    QString m_failure;
    QString m_lastError;
    double m_secondsBefore = 0;
    bool m_ended = false;
};

} // namespace planloom::ui
