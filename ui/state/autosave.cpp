// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/autosave.h"

#include "engine/base/files.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QPointer>
#include <QUuid>

namespace planloom::ui {

namespace {

const QString kPlanSuffix = QStringLiteral(".unsaved.json");
const QString kPathSuffix = QStringLiteral(".path"); // beside it: the file that the plan was opened from
const QString kLockSuffix = QStringLiteral(".lock");

QString ownFile(const QString &folder)
{
    const QString id = QUuid::createUuid().toString(QUuid::Id128).left(8);
    return QStringLiteral("%1/%2-%3%4").arg(folder).arg(QCoreApplication::applicationPid()).arg(id, kPlanSuffix);
}

void removeFiles(const QString &file)
{
    QFile::remove(file);
    QFile::remove(file + kPathSuffix);
}

QString pathOf(const QString &file)
{
    const auto text = readFile((file + kPathSuffix).toStdString());
    return text ? QString::fromStdString(*text) : QString();
}

} // namespace

Autosave::Autosave(StudioState *state, const QString &folder, int delay)
    : m_state(state),
      m_folder(folder),
      m_file(ownFile(folder)),
      m_lock(m_file + kLockSuffix)
{
    QDir().mkpath(folder);
    m_lock.setStaleLockTime(0); // held as long as the process lives, however long that is
    m_lock.tryLock(0);
    m_timer.setSingleShot(true);
    m_timer.setInterval(delay);
    connect(&m_timer, &QTimer::timeout, this, &Autosave::keep);
    connect(state, &StudioState::documentChanged, this, &Autosave::changed);
    connect(state->undoStack(), &QUndoStack::cleanChanged, this, &Autosave::changed);
}

Autosave::~Autosave()
{
    disconnect(m_state, nullptr, this, nullptr);
    disconnect(m_state->undoStack(), nullptr, this, nullptr);
    m_timer.stop();
    m_job.wait();
    removeFiles(m_file);
    if (m_state->document()) // it was taken over from an earlier studio a moment ago
        finishRecovery(true);
}

void Autosave::changed()
{
    if (!m_timer.isActive()) // edits without a pause must not put it off for ever
        m_timer.start();
}

void Autosave::keep()
{
    const auto document = m_state->document();
    if (m_job.running())
        return m_timer.start();
    if (!document || m_state->undoStack()->isClean())
        return drop();
    m_job.start(tr("Saving the unsaved plan for recovery"),
                [this, document, file = m_file, path = m_state->planPath()](Progress &) -> Job::Completion {
                    Status status = plan::writePlan(*document, file.toStdString());
                    if (status)
                        status = writeFileAtomically((file + kPathSuffix).toStdString(), path.toStdString());
                    return [this, status] { written(status); };
                });
}

void Autosave::written(const Status &status)
{
    if (status)
        return finishRecovery(true);
    if (!m_complained)
        m_state->say(
            MessageLevel::Warning,
            tr("Unsaved changes would be lost in a crash: %1").arg(QString::fromStdString(status.error().text())));
    m_complained = true;
}

void Autosave::drop()
{
    removeFiles(m_file);
    if (m_state->document()) // saved; without one, the recovered plan is still being loaded
        finishRecovery(true);
}

Autosave::Leftover Autosave::newestLeftover() const
{
    const auto files = QDir(m_folder).entryInfoList({QLatin1Char('*') + kPlanSuffix}, QDir::Files, QDir::Time);
    for (const QFileInfo &info : files) {
        const QString file = info.filePath();
        if (file == m_file)
            continue;
        auto lock = std::make_unique<QLockFile>(file + kLockSuffix);
        lock->setStaleLockTime(0);
        if (lock->tryLock(0)) // the process that held it is gone
            return {file, std::move(lock)};
    }
    return {};
}

bool Autosave::hasLeftover() const { return !newestLeftover().file.isEmpty(); }

bool Autosave::recover()
{
    if (!m_recovered.lock)
        m_recovered = newestLeftover();
    if (!m_recovered.lock)
        return false;
    const auto before = m_state->document();
    const QString when = QFileInfo(m_recovered.file).lastModified().toString(QStringLiteral("yyyy-MM-dd hh:mm"));
    m_state->recoverPlan(m_recovered.file, pathOf(m_recovered.file));
    m_state->whenLoaded([self = QPointer<Autosave>(this), this, before, when] {
        if (!self)
            return;
        if (!m_state->document() || m_state->document() == before)
            return finishRecovery(false);
        m_state->say(MessageLevel::Warning, tr("Recovered an unsaved plan (%1). Save it to keep it.").arg(when));
    });
    return true;
}

/// @p opened: the plan is safe elsewhere. Else it cannot be read; it is put aside, so that the next start does not try
/// it again.
void Autosave::finishRecovery(bool opened)
{
    if (!m_recovered.lock)
        return;
    if (opened)
        removeFiles(m_recovered.file);
    else
        QFile::rename(m_recovered.file, m_recovered.file + QStringLiteral(".unreadable"));
    m_recovered = {};
}

} // namespace planloom::ui
