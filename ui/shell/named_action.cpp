// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/named_action.h"

namespace planloom::ui {

QString actionName(const QString &text)
{
    QString name;
    for (const QChar each : text.toLower()) {
        if (each.isLetterOrNumber())
            name += each;
        else if (each.isSpace() && !name.isEmpty() && !name.endsWith(QLatin1Char('-')))
            name += QLatin1Char('-');
    }
    while (name.endsWith(QLatin1Char('-')))
        name.chop(1);
    return name;
}

} // namespace planloom::ui
