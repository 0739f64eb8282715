// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QString>

#include "ui/model/scope_graph.h"

namespace planloom::ui {

/// Lays a graph out by Graphviz's `dot` in a child process, which can be cancelled and cannot take the studio down with
/// it. One layout at a time: starting another cancels the first. UI thread.
class DotProcess : public QObject {
    Q_OBJECT

public:
    explicit DotProcess(QObject *parent = nullptr);
    ~DotProcess() override;

    void start(const VisibleGraph &graph, const BoxSizes &sizes);
    void cancel();
    [[nodiscard]] bool running() const { return m_process != nullptr; }

Q_SIGNALS:
    void finished(const planloom::ui::PlainLayout &layout);
    void failed(const QString &reason);

private:
    void end(int exitCode, QProcess::ExitStatus status);
    void drop();

    QProcess *m_process = nullptr;
    std::size_t m_nodes = 0;
};

} // namespace planloom::ui
