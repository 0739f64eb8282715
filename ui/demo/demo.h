// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "ui/script/act_player.h"
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

/// The story as acts, played one after the other.
class Demo final : public QObject {
    Q_OBJECT

public:
    Demo(StudioState *state, MainWindow *window, DemoOptions options, QObject *parent = nullptr);
    void start();
    [[nodiscard]] QString failure() const { return m_player.failure(); } ///< empty: all went well so far

Q_SIGNALS:
    void finished(bool ok);

private:
    void writeActs();
    void writePlanningActs();
    void writeRunActs();
    void say(int act, int of, const QString &name);
    void finish(bool ok);
    void fail(const QString &why) { m_player.fail(why); }
    void moveBoundary();
    void picture(QWidget *widget, const QString &name);
    void pictures();
    void exportEverything();

    StudioState *m_state;
    MainWindow *m_window;
    DemoOptions m_options;
    std::vector<Act> m_acts;
    ActPlayer m_player;
    double m_secondsBefore = 0;
};

} // namespace planloom::ui
