// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/view_link.h"

#include "ui/shell/layouts.h"
#include "ui/widgets/text.h"

#include <QFileInfo>
#include <QUrl>

#include <algorithm>

namespace planloom::ui {

namespace {

const QString kScheme = QStringLiteral("planloom:");

/// For a place between "?", "&", "=" and "#".
QString encoded(const QString &text)
{
    return QString::fromUtf8(QUrl::toPercentEncoding(text, QByteArrayLiteral("/:,@")));
}

/// "KEY=VALUE&..." into @p link.
Status readFields(const QString &text, ViewLink &link)
{
    for (const QString &part : text.split(QLatin1Char('&'), Qt::SkipEmptyParts)) {
        const qsizetype equals = part.indexOf(QLatin1Char('='));
        if (equals <= 0)
            return badInput(QStringLiteral("the link has \"%1\", which is not KEY=VALUE; copy the link again")
                                .arg(part)
                                .toStdString());
        const QString key = part.left(equals);
        const QString value = QUrl::fromPercentEncoding(part.mid(equals + 1).toUtf8());
        if (key == QLatin1String("file")) {
            link.files << value;
            continue;
        }
        if (const Status status = checkField(key, value); !status)
            return status;
        link.fields.emplace_back(key, value);
    }
    return {};
}

} // namespace

QString fieldOf(const ViewFields &fields, const char *key)
{
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const auto &each) { return each.first == QLatin1String(key); });
    return found == fields.end() ? QString() : found->second;
}

std::optional<std::pair<qint64, qint64>> numbersOf(const QString &text)
{
    const qsizetype dash = text.indexOf(QLatin1Char('-'), 1); // a time may be negative
    bool isFirst = false;
    bool isLast = false;
    const qint64 first = text.left(dash).toLongLong(&isFirst);
    const qint64 last = text.mid(dash + 1).toLongLong(&isLast);
    if (dash < 0 || !isFirst || !isLast || last < first)
        return std::nullopt;
    return std::pair(first, last);
}

Status checkField(const QString &key, const QString &value)
{
    const auto known = std::find_if(std::begin(kViewKeys), std::end(kViewKeys),
                                    [&](const ViewKey &each) { return key == QLatin1String(each.name); });
    if (known == std::end(kViewKeys)) {
        QStringList names;
        for (const ViewKey &each : kViewKeys)
            names << QString::fromLatin1(each.name);
        return badInput(QStringLiteral("there is no key '%1'; use one of %2")
                            .arg(key, names.join(QStringLiteral(", ")))
                            .toStdString());
    }
    bool good = true;
    if (key == QLatin1String("layout"))
        good = layoutNamed(value).has_value();
    else if (key == QLatin1String("tab") || key == QLatin1String("stage") || key == QLatin1String("scroll"))
        good = value.toInt(&good) >= 0 && good;
    else if (key == QLatin1String("layers") || key == QLatin1String("range"))
        good = value.isEmpty() || numbersOf(value).has_value();
    else if (key == QLatin1String("zoom"))
        good = value == QLatin1String("all") || numbersOf(value).has_value();
    if (!good && !value.isEmpty())
        return badInput(
            QStringLiteral("%1=%2: give %3").arg(key, value, QString::fromLatin1(known->value)).toStdString());
    return {};
}

QString linkText(const ViewLink &link)
{
    QStringList parts;
    for (const QString &file : link.files.mid(1))
        parts << QStringLiteral("file=") + encoded(file);
    for (const auto &[key, value] : link.fields)
        parts << key + QLatin1Char('=') + encoded(value);
    const QString first = link.files.isEmpty() ? QString() : encoded(link.files.front());
    return kScheme + first + (parts.isEmpty() ? QString() : QLatin1Char('?') + parts.join(QLatin1Char('&')));
}

Result<ViewLink> readLink(const QString &text)
{
    const QString whole = text.trimmed();
    const bool hasScheme = whole.startsWith(kScheme);
    const qsizetype end = hasScheme ? whole.indexOf(QLatin1Char('?')) : whole.lastIndexOf(QLatin1Char('#'));
    const QString name = end < 0 ? whole : whole.left(end);
    ViewLink link;
    if (hasScheme) {
        QString file = QUrl::fromPercentEncoding(name.mid(kScheme.size()).toUtf8());
        while (file.startsWith(QLatin1String("//"))) // "planloom:///data/plan.json"
            file.remove(0, 1);
        if (!file.isEmpty())
            link.files << file;
    } else if (!name.isEmpty()) {
        link.files << name;
    }
    if (const Status status = readFields(end < 0 ? QString() : whole.mid(end + 1), link); !status)
        return status.error();
    if (link.files.isEmpty() && link.fields.empty())
        return badInput("the link is empty; it begins with planloom: or with a file and #");
    return link;
}

bool isLink(const QString &text)
{
    if (text.trimmed().startsWith(kScheme))
        return true;
    const qsizetype mark = text.lastIndexOf(QLatin1Char('#'));
    return mark > 0 && text.indexOf(QLatin1Char('='), mark) > 0 && !QFileInfo::exists(text);
}

} // namespace planloom::ui
