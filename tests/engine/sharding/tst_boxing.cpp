// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/boxing.h"

#include <QTest>

using namespace planloom;
using namespace planloom::sharding;

class TestBoxing : public QObject {
    Q_OBJECT

private slots:
    /// The paper's table for 4 devices and a tensor of 1 MiB.
    void bytesAsPublished_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::addColumn<double>("bytes");
        const auto row = [](const char *from, const char *to, double bytes) {
            QTest::addRow("%s to %s", from, to) << from << to << bytes;
        };
        row("S(0)", "S(0)", 0);
        row("S(0)", "S(1)", 786432);
        row("S(0)", "B", 3145728);
        row("S(0)", "P", 0);
        row("B", "S(0)", 0);
        row("B", "S(1)", 0);
        row("B", "B", 0);
        row("B", "P", 0);
        row("P", "S(0)", 3145728);
        row("P", "S(1)", 3145728);
        row("P", "B", 6291456);
        row("P", "P", 0);
    }

    void bytesAsPublished()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        QFETCH(double, bytes);
        const auto sbp = [](const QString &text) { return fromText(text.toStdString())->front(); };
        QCOMPARE(boxingBytes(sbp(from), sbp(to), 1048576, 4), bytes);
    }
};

QTEST_GUILESS_MAIN(TestBoxing)
#include "tst_boxing.moc"
