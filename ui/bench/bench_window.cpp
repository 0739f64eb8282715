// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/bench/bench_window.h"

#include <QCoreApplication>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QThread>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr qint64 kPatience = 600'000; // milliseconds
constexpr unsigned long kLook = 500;  // microseconds
constexpr int kNotchAngle = 120;

} // namespace

bool waitUntil(const std::function<bool()> &condition)
{
    QElapsedTimer timer;
    timer.start();
    while (!condition()) {
        if (timer.elapsed() > kPatience)
            return false;
        QCoreApplication::processEvents(QEventLoop::AllEvents);
        QThread::usleep(kLook);
    }
    return true;
}

void settle()
{
    for (int k = 0; k < 20; ++k)
        QCoreApplication::processEvents(QEventLoop::AllEvents);
}

void benchWheel(QWidget &widget, int notches, Qt::KeyboardModifiers modifiers)
{
    const QPoint at = widget.rect().center();
    QWheelEvent event(at, widget.mapToGlobal(at), {}, {0, notches * kNotchAngle}, Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&widget, &event);
}

void benchMouse(QWidget &widget, QEvent::Type type, const QPoint &at, Qt::MouseButton button)
{
    const Qt::MouseButtons held = type == QEvent::MouseButtonPress ? Qt::MouseButtons(button) : Qt::NoButton;
    QMouseEvent event(type, at, widget.mapToGlobal(at), button, held, Qt::NoModifier);
    QCoreApplication::sendEvent(&widget, &event);
}

void benchClick(QWidget &widget, const QPoint &at)
{
    benchMouse(widget, QEvent::MouseButtonPress, at, Qt::LeftButton);
    benchMouse(widget, QEvent::MouseButtonRelease, at, Qt::LeftButton);
}

void benchKey(QWidget &widget, Qt::Key key)
{
    for (const QEvent::Type type : {QEvent::KeyPress, QEvent::KeyRelease}) {
        QKeyEvent event(type, key, Qt::NoModifier);
        QCoreApplication::sendEvent(&widget, &event);
    }
}

// --- the window

BenchWindow::BenchWindow()
    : m_state(std::make_unique<StudioState>()),
      m_window(std::make_unique<MainWindow>(m_state.get()))
{
    QObject::connect(m_state.get(), &StudioState::message, m_window.get(),
                     [this](MessageLevel level, const QString &text) {
                         if (level == MessageLevel::Error)
                             m_error = text;
                     });
    m_window->setAsks(false);
    m_window->resize(kWidth, kHeight);
    m_window->show();
    m_window->resetLayout();
    settle();
}

void BenchWindow::showAlone(const QString &name)
{
    for (QDockWidget *dock : m_window->docks())
        dock->setVisible(dock->objectName() == name);
    for (QDockWidget *dock : m_window->docks())
        if (dock->objectName() == name)
            dock->raise();
    settle();
}

bool BenchWindow::open(const QString &file)
{
    m_error.clear();
    m_window->open({file});
    return waitUntil([this] { return !m_state->loadJob()->running(); }) && m_error.isEmpty();
}

bool BenchWindow::plan(const QString &model, const QString &cluster, std::int64_t batch,
                       const planners::Options &options)
{
    m_error.clear();
    m_window->open({model, cluster});
    if (!waitUntil([this] { return !m_state->loadJob()->running(); }) || !m_state->subject())
        return false;
    PlanRequest request;
    request.planner = "manual";
    request.globalBatch = batch;
    request.microBatch = 1;
    request.options = options;
    if (!m_state->runPlanner(request))
        return false;
    waitUntil(
        [this] { return m_state->simulationCurrent() || (!m_state->planJob()->running() && !m_state->simulating()); });
    settle();
    return m_state->simulationCurrent();
}

// --- the context

BenchContext::BenchContext(BenchOptions options, EventWatch &watch, std::function<void(const QString &)> progress)
    : m_options(std::move(options)),
      m_watch(watch),
      m_progress(std::move(progress))
{
}

std::int64_t BenchContext::sized(std::int64_t whole, std::int64_t least) const
{
    return std::max<std::int64_t>(least, std::llround(static_cast<double>(whole) * m_options.size));
}

QString BenchContext::file(const QString &target, const QString &name,
                           const std::function<Status(const QString &)> &write)
{
    const QString file = path(name);
    if (QFileInfo::exists(file))
        return file;
    m_progress(QStringLiteral("writing %1").arg(name));
    if (const Status written = write(file); !written) {
        fail(target, name, QString::fromStdString(written.error().text()));
        return {};
    }
    return file;
}

void BenchContext::begin(const QString &what)
{
    m_progress(what);
    residentBytes(); // gives freed memory back
    forgetPeak();
}

void BenchContext::add(BenchFigure figure)
{
    if (figure.peakBytes == 0)
        figure.peakBytes = peakBytes();
    m_figures.push_back(std::move(figure));
}

void BenchContext::addFrames(const QString &target, const QString &what, const Samples &samples, double limit,
                             std::int64_t events)
{
    BenchFigure figure = benchFigure(target, what);
    figure.clock = QStringLiteral("processor");
    figure.values = samples.processor;
    figure.byClock = samples.clock;
    figure.limit = limit;
    figure.compared = BenchFigure::Compared::P95;
    figure.events = events;
    add(std::move(figure));
}

void BenchContext::addWaits(const QString &target, const QString &what, const Samples &samples, double limit,
                            std::int64_t events)
{
    BenchFigure figure = benchFigure(target, what);
    figure.clock = QStringLiteral("clock");
    figure.values = samples.clock;
    figure.byClock = samples.clock;
    figure.limit = limit;
    figure.events = events;
    add(std::move(figure));
}

void BenchContext::fail(const QString &target, const QString &what, const QString &why)
{
    BenchFigure figure = benchFigure(target, what);
    figure.note = why.isEmpty() ? QStringLiteral("did not end within ten minutes") : why;
    add(std::move(figure));
}

} // namespace planloom::ui
