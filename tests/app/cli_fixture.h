// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <QDir>
#include <QFile>
#include <QObject>
#include <QProcess>
#include <QProcessEnvironment>
#include <QTemporaryDir>

#include <functional>

/// The planloom command, run as a user runs it: a separate process in a separate folder.
namespace planloom::testing {

constexpr int kWait = 180'000; ///< milliseconds: a hang, not a speed

/// The command that is built, or the one that PLANLOOM_BINARY names.
inline QString binary()
{
    const QString other = qEnvironmentVariable("PLANLOOM_BINARY");
    return other.isEmpty() ? QStringLiteral(PLANLOOM_BINARY_DIR "/planloom") : other;
}

inline QByteArray readAll(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

inline bool write(const QString &path, const QByteArray &bytes)
{
    QFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size();
}

/// How a process ended and what it said.
struct Done {
    int status = -1; ///< of its exit; -2: it hung; -3: a signal ended it
    QByteArray out;
    QByteArray err;
};

/// Shared by tests of the command.
class CliTest : public QObject {
protected:
    QTemporaryDir m_folder; ///< the processes' working directory

    [[nodiscard]] QString at(const QString &name) const { return m_folder.filePath(name); }

    void prepare(QProcess &process) const
    {
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("XDG_DATA_HOME", at("data-home"));
        environment.insert("OMPI_ALLOW_RUN_AS_ROOT", "1");
        environment.insert("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        process.setProcessEnvironment(environment);
        process.setWorkingDirectory(m_folder.path());
    }

    void start(QProcess &process, const QStringList &arguments) const
    {
        prepare(process);
        process.start(binary(), arguments);
        process.closeWriteChannel();
    }

    [[nodiscard]] Done run(const QStringList &arguments, const std::function<void()> &inChild = {}) const
    {
        QProcess process;
        if (inChild)
            process.setChildProcessModifier(inChild);
        start(process, arguments);
        if (!process.waitForFinished(kWait)) {
            process.kill();
            process.waitForFinished();
            return {-2, {}, "did not end"};
        }
        return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -3, process.readAllStandardOutput(),
                process.readAllStandardError()};
    }

    /// Names of all that is in @p folder, or in m_folder.
    [[nodiscard]] QStringList entries(const QString &folder = {}) const
    {
        return QDir(folder.isEmpty() ? m_folder.path() : folder)
            .entryList(QDir::AllEntries | QDir::NoDotAndDotDot | QDir::Hidden);
    }
};

} // namespace planloom::testing
