// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/dot_process.h"

namespace planloom::ui {

DotProcess::DotProcess(QObject *parent) : QObject(parent) {}

DotProcess::~DotProcess() { drop(); }

void DotProcess::start(const VisibleGraph &graph, const BoxSizes &sizes)
{
    drop();
    m_nodes = graph.nodes.size();
    m_process = new QProcess(this);
    connect(m_process, &QProcess::finished, this, &DotProcess::end);
    connect(m_process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart)
            return; // finished() tells the rest
        drop();
        Q_EMIT failed(tr("Graphviz's dot cannot be started; install the package graphviz"));
    });
    m_process->start("dot", {"-Tplain"});
    m_process->write(QByteArray::fromStdString(dotSource(graph, sizes)));
    m_process->closeWriteChannel();
}

void DotProcess::cancel()
{
    if (!m_process)
        return;
    drop();
    Q_EMIT failed(tr("The layout was cancelled; close some scopes and try again"));
}

void DotProcess::end(int exitCode, QProcess::ExitStatus status)
{
    const std::string text = m_process->readAllStandardOutput().toStdString();
    const QString complaint = QString::fromLocal8Bit(m_process->readAllStandardError()).trimmed();
    drop();
    PlainLayout layout;
    if (status == QProcess::NormalExit && exitCode == 0 && parsePlain(text, m_nodes, layout)) {
        Q_EMIT finished(layout);
        return;
    }
    Q_EMIT failed(complaint.isEmpty() ? tr("Graphviz's dot gave no layout")
                                      : tr("Graphviz's dot failed: %1").arg(complaint));
}

void DotProcess::drop()
{
    if (!m_process)
        return;
    QProcess *process = m_process;
    m_process = nullptr;
    process->disconnect(this);
    if (process->state() != QProcess::NotRunning) {
        process->kill();
        process->waitForFinished(1000); // a killed child ends at once
    }
    process->deleteLater();
}

} // namespace planloom::ui
