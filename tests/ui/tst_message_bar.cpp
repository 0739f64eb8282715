// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include "ui/shell/message_bar.h"

#include <QApplication>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

class TestMessageBar : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void aLongTextIsCutAndWholeOnDemand();
    void lineBreaksAreCut();
};

namespace {

QWidget *openBox()
{
    for (QWidget *each : QApplication::topLevelWidgets())
        if (each->windowType() == Qt::Popup && each->isVisible())
            return each;
    return nullptr;
}

} // namespace

void TestMessageBar::aLongTextIsCutAndWholeOnDemand()
{
    MessageBar bar;
    bar.resize(500, bar.height());
    const QString brief = QStringLiteral("Saved");
    bar.show(MessageLevel::Info, brief);
    QVERIFY(QTest::qWaitForWindowExposed(&bar));
    QCOMPARE(bar.shownText(), brief);
    auto *more = bar.findChildren<QToolButton *>().front();
    QVERIFY(!more->isVisible());
    QString text = QStringLiteral("The plan cannot be simulated:");
    for (int word = 0; word < 40; ++word)
        text += QStringLiteral(" word%1").arg(word);
    const int height = bar.height();
    bar.show(MessageLevel::Error, text);
    QCOMPARE(bar.text(), text);
    QCOMPARE(bar.height(), height);
    QVERIFY2(bar.shownText().endsWith(QStringLiteral("…")) && text.startsWith(bar.shownText().chopped(1)),
             qPrintable(bar.shownText()));
    QVERIFY(more->isVisible());
    auto *label = bar.findChildren<QLabel *>()[1];
    QCOMPARE(label->toolTip(), text);
    QTest::mouseClick(label, Qt::LeftButton);
    QWidget *box = openBox();
    QVERIFY(box);
    QCOMPARE(box->findChild<QLabel *>()->text(), text);
    QTest::keyClick(box, Qt::Key_Escape);
    QTRY_VERIFY(!openBox());
    QTest::mouseClick(more, Qt::LeftButton);
    QVERIFY(openBox());
    openBox()->close();
    // With room there is nothing to open.
    bar.resize(4000, bar.height());
    QCOMPARE(bar.shownText(), text);
    QVERIFY(!more->isVisible());
}

void TestMessageBar::lineBreaksAreCut()
{
    MessageBar bar;
    bar.resize(500, bar.height());
    bar.show(MessageLevel::Warning, QStringLiteral("first line\nsecond line"));
    QCOMPARE(bar.shownText(), QStringLiteral("first line …"));
    QCOMPARE(bar.text(), QStringLiteral("first line\nsecond line"));
}

PLANLOOM_UI_MAIN(TestMessageBar)
#include "tst_message_bar.moc"
