// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <QProcess>
#include <QStandardPaths>
#include <QString>
#include <QStringList>
#include <QTemporaryFile>

#include <string>

namespace planloom::testing {

/// What a script of tests/engine/export/upstream says to a file.
struct UpstreamAnswer {
    bool reads = false;
    QString text; ///< "read by PyTorch 2.10.0", or why it is refused
};

/// Runs @p script on a file of @p content and @p arguments behind its name. Python without a terminal, at most a
/// minute.
inline UpstreamAnswer askUpstream(const QString &script, const std::string &content, const QStringList &arguments)
{
    const QString python = QStandardPaths::findExecutable(QStringLiteral("python3"));
    if (python.isEmpty())
        return {false, QStringLiteral("there is no python3; run packaging/install-deps")};
    QTemporaryFile file;
    if (!file.open() || file.write(content.data(), static_cast<qint64>(content.size())) < 0 || !file.flush())
        return {false, QStringLiteral("no temporary file")};
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(python,
                  QStringList{PLANLOOM_SOURCE_DIR "/tests/engine/export/upstream/" + script, file.fileName()}
                      + arguments);
    constexpr int kMinute = 60'000;
    if (!process.waitForFinished(kMinute))
        return {false, QStringLiteral("python3 gives no answer")};
    const QString text = QString::fromUtf8(process.readAll()).trimmed();
    return {process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0
                && text.contains(QLatin1String("read by ")),
            text};
}

} // namespace planloom::testing
