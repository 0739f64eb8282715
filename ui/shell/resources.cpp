// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/resources.h"

#include <QCoreApplication>
#include <QDir>
#include <QStringList>

namespace planloom::ui {

QString resourceFolder(const QString &name)
{
    QStringList roots{qEnvironmentVariable("PLANLOOM_RESOURCES"),
                      QCoreApplication::applicationDirPath() + QStringLiteral("/../share/planloom")};
    QDir above(QCoreApplication::applicationDirPath());
    for (int level = 0; level < 5 && above.cdUp(); ++level)
        roots << above.filePath(QStringLiteral("resources"));
    for (const QString &root : std::as_const(roots)) {
        if (!root.isEmpty() && QDir(root + QLatin1Char('/') + name).exists())
            return QDir(root + QLatin1Char('/') + name).canonicalPath();
    }
    return {};
}

} // namespace planloom::ui
