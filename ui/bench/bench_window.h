// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/bench/event_watch.h"
#include "ui/bench/figures.h"
#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"

#include <QPoint>
#include <QString>
#include <QTemporaryDir>
#include <QWidget>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace planloom::ui {

constexpr int kBenchFrames = 300; ///< at least: gui.md

/// What to measure.
struct BenchOptions {
    std::vector<int> targets; ///< numbers, 1 to 13
    double size = 1;          ///< share of the targets' sizes, above 0
    double liveSeconds = 10;  ///< of T6
    QString program;          ///< the studio's own path, for its start (T12)
};

/// The studio's window and state as a user has them, alone on 1920 x 1080.
class BenchWindow {
public:
    static constexpr int kWidth = 1920;
    static constexpr int kHeight = 1080;

    BenchWindow();
    [[nodiscard]] StudioState &state() { return *m_state; }
    [[nodiscard]] MainWindow &window() { return *m_window; }
    /// The view @p name, which then has the window for itself. T: its class.
    template <class T>
    [[nodiscard]] T &alone(const QString &name)
    {
        showAlone(name);
        return *static_cast<T *>(m_window->view(name));
    }
    /// What the bar said last that is an error; empty: nothing.
    [[nodiscard]] const QString &error() const { return m_error; }
    /// Opens a model and a cluster and plans with planner manual, until the simulation is there. False: error() or a
    /// time-out.
    bool plan(const QString &model, const QString &cluster, std::int64_t batch, const planners::Options &options);
    bool open(const QString &file); ///< until it is loaded; false: error() or a time-out

private:
    void showAlone(const QString &name);

    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MainWindow> m_window;
    QString m_error;
};

/// Handles events until @p condition holds; looks twice a millisecond. False: it did not within ten minutes.
bool waitUntil(const std::function<bool()> &condition);
/// Handles what is to be done at once, and what that asks for.
void settle();
// A user's hand. Events go to the widget as from the system.
void benchWheel(QWidget &widget, int notches, Qt::KeyboardModifiers modifiers);
void benchMouse(QWidget &widget, QEvent::Type type, const QPoint &at, Qt::MouseButton button = Qt::NoButton);
void benchClick(QWidget &widget, const QPoint &at);
void benchKey(QWidget &widget, Qt::Key key);

/// The targets' work: files, figures, progress.
class BenchContext {
public:
    BenchContext(BenchOptions options, EventWatch &watch, std::function<void(const QString &)> progress);

    [[nodiscard]] const BenchOptions &options() const { return m_options; }
    [[nodiscard]] EventWatch &watch() { return m_watch; }
    [[nodiscard]] const std::vector<BenchFigure> &figures() const { return m_figures; }
    /// @p whole by the share of sizes that was asked for, at least @p least.
    [[nodiscard]] std::int64_t sized(std::int64_t whole, std::int64_t least) const;
    [[nodiscard]] QString path(const QString &name) const { return m_folder.filePath(name); }
    /// The file @p name, written by @p write where it is not there yet. Empty: it could not be; a figure says so.
    QString file(const QString &target, const QString &name, const std::function<Status(const QString &)> &write);

    /// Forgets the process's largest memory; what follows is the figure's.
    void begin(const QString &what);
    void add(BenchFigure figure);
    /// In processor time of the UI thread, by p95.
    void addFrames(const QString &target, const QString &what, const Samples &samples, double limit,
                   std::int64_t events);
    /// In time by the clock, milliseconds, by the largest.
    void addWaits(const QString &target, const QString &what, const Samples &samples, double limit,
                  std::int64_t events);
    void fail(const QString &target, const QString &what, const QString &why);

private:
    BenchOptions m_options;
    EventWatch &m_watch;
    std::function<void(const QString &)> m_progress;
    QTemporaryDir m_folder;
    std::vector<BenchFigure> m_figures;
};

// One for each target; see bench.cpp. T3's trace is T2's and T5's, too.
void benchOpening(BenchContext &context);       ///< T1
void benchTimeline(BenchContext &context);      ///< T2, T3, T5: what of them was asked for
void benchLargeTimeline(BenchContext &context); ///< T4
void benchLive(BenchContext &context);          ///< T6
void benchModel(BenchContext &context);         ///< T7
void benchMemory(BenchContext &context);        ///< T8
void benchSchedule(BenchContext &context);      ///< T9
void benchTopology(BenchContext &context);      ///< T10
void benchRuns(BenchContext &context);          ///< T11, T13: what of them was asked for
void benchStart(BenchContext &context);         ///< T12, of what ran before

} // namespace planloom::ui
