// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/export/export.h"
#include "uniform_plan.h"

#include <QTest>

#include <algorithm>
#include <functional>

namespace planloom::testing {

/// Change of a plan by a data row.
using Edit = std::function<void(plan::Document &)>;

/// @p made, with its notes, each behind @p mark, is the golden text of the current data row.
inline void compareWithGolden(const Result<exporting::Configuration> &made, const QString &target,
                              const std::string &mark = "note: ")
{
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    std::string text = made->text;
    for (const std::string &note : made->notes)
        text += mark + note + "\n";
    const QString name = QString("%1 %2.txt").arg(target, QTest::currentDataTag()).remove(',').replace(' ', '-');
    QCOMPARE(QString::fromStdString(text), QString::fromStdString(golden(name.toStdString(), text)));
}

/// @p made is refused: the message names one of @p targets, the reason @p why, and a remedy.
inline void compareWithRefusal(const Result<exporting::Configuration> &made, const QString &why,
                               const QStringList &targets)
{
    QVERIFY(!made.ok());
    QCOMPARE(made.error().code, ErrorCode::Unsupported);
    const QString message = QString::fromStdString(made.error().message);
    QVERIFY2(message.contains(why), qPrintable(message));
    QVERIFY2(std::any_of(targets.begin(), targets.end(),
                         [&](const QString &target) { return message.contains(target); }),
             qPrintable(message));
    QVERIFY2(message.contains(';') || message.contains(", or "), qPrintable(message));
}

} // namespace planloom::testing
