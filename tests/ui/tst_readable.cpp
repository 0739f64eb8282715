// SPDX-License-Identifier: GPL-3.0-or-later
// Every view's texts in every theme, at the usual scale and at twice that: none is cut, all have contrast.
#include "tests/ui/cut_text.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"

#include "ui/shell/main_window.h"
#include "ui/theme/theme.h"

#include <QDockWidget>
#include <QLabel>
#include <QProcess>
#include <QPushButton>
#include <QTabWidget>
#include <QTest>

#include <algorithm>

using namespace planloom;
using namespace planloom::ui;

class TestReadable : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void badTextsAreFound();
    void textsAreReadable_data();
    void textsAreReadable();
    void soTheyAreAtTwiceTheScale();
    void cleanupTestCase();

private:
    std::unique_ptr<testing::OwnSettings> m_settings;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<MainWindow> m_window;
};

namespace {

bool atTwiceTheScale() { return qgetenv("QT_SCALE_FACTOR") == "2"; }

/// Findings that have not been mended, by a part of their text.
constexpr const char *kKnownFindings[] = {
    // In a window of 1280 x 720 points, dark or in high contrast: the second stage's name in the legend of the graph.
    "\"2\" of QSplitter > QWidget > planloom::ui::ColorLegendBar",
};

bool isKnown(const QString &finding)
{
    return std::ranges::any_of(kKnownFindings,
                               [&](const char *known) { return finding.contains(QLatin1String(known)); });
}

/// Of each page of each tab in @p whole.
QStringList findingsOnPages(QWidget &whole)
{
    QStringList found;
    const auto look = [&] {
        QCoreApplication::processEvents();
        found << testing::cutTexts(whole) << testing::unreadableTexts(whole);
    };
    look();
    for (QTabWidget *tabs : whole.findChildren<QTabWidget *>()) {
        const int before = tabs->currentIndex();
        for (int page = 0; page < tabs->count(); ++page) {
            if (page == before || !tabs->isTabVisible(page) || !tabs->isTabEnabled(page))
                continue;
            tabs->setCurrentIndex(page);
            look();
        }
        tabs->setCurrentIndex(before);
    }
    found.removeDuplicates();
    return found;
}

} // namespace

void TestReadable::initTestCase()
{
    m_settings = std::make_unique<testing::OwnSettings>();
    applyTheme(*qApp, ThemeKind::Light);
    m_state = std::make_unique<StudioState>();
    m_window = std::make_unique<MainWindow>(m_state.get());
    m_window->setAsks(false);
    // A screen of 2560 x 1440 has half as many of the window's pixels at twice the scale.
    m_window->resize(atTwiceTheScale() ? QSize(1280, 720) : QSize(1600, 1000));
    m_window->show();
    m_window->resetLayout();
    QVERIFY(testing::loadSample(*m_state));
}

void TestReadable::badTextsAreFound()
{
    QWidget page;
    page.resize(300, 200);
    auto *narrow = new QLabel(QStringLiteral("a text that is longer than its label"), &page);
    narrow->setGeometry(0, 0, 60, 20);
    auto *faint = new QLabel(QStringLiteral("faint"), &page);
    faint->setGeometry(0, 30, 200, 20);
    QPalette palette = faint->palette();
    palette.setColor(QPalette::WindowText, QColor(0xb0, 0xb0, 0xb0));
    faint->setPalette(palette);
    auto *elided = new QPushButton(QStringLiteral("a button that is too narrow"), &page);
    elided->setGeometry(0, 60, 50, 24);
    auto *fine = new QLabel(QStringLiteral("fine"), &page);
    fine->setGeometry(0, 100, 200, 20);
    page.show();
    const QString cut = testing::cutTexts(page).join(QLatin1Char('\n'));
    QVERIFY2(cut.contains(QStringLiteral("QLabel")) && cut.contains(QStringLiteral("QPushButton")), qPrintable(cut));
    const QString unreadable = testing::unreadableTexts(page).join(QLatin1Char('\n'));
    QVERIFY2(unreadable.contains(QStringLiteral("faint")), qPrintable(unreadable));
    QVERIFY2(!unreadable.contains(QStringLiteral("fine")), qPrintable(unreadable));
    narrow->setToolTip(narrow->text());
    elided->setToolTip(elided->text());
    QCOMPARE(testing::cutTexts(page), QStringList());
}

void TestReadable::textsAreReadable_data()
{
    QTest::addColumn<int>("theme");
    QTest::newRow("light") << static_cast<int>(ThemeKind::Light);
    QTest::newRow("dark") << static_cast<int>(ThemeKind::Dark);
    QTest::newRow("high contrast") << static_cast<int>(ThemeKind::HighContrast);
}

void TestReadable::textsAreReadable()
{
    QFETCH(int, theme);
    applyTheme(*qApp, static_cast<ThemeKind>(theme));
    QStringList found;
    for (QDockWidget *dock : m_window->docks()) {
        dock->raise();
        for (const QString &each : findingsOnPages(*dock))
            if (!isKnown(each) || !atTwiceTheScale())
                found << dock->objectName() + QStringLiteral(": ") + each;
    }
    QVERIFY2(found.isEmpty(), qPrintable(QLatin1Char('\n') + found.join(QLatin1Char('\n'))));
}

/// Qt takes the scale at its start.
void TestReadable::soTheyAreAtTwiceTheScale()
{
    if (atTwiceTheScale())
        QSKIP("this is it");
    QProcess again;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("QT_SCALE_FACTOR"), QStringLiteral("2"));
    again.setProcessEnvironment(environment);
    again.setProcessChannelMode(QProcess::MergedChannels);
    again.start(QCoreApplication::arguments().front(), {QStringLiteral("textsAreReadable")});
    QVERIFY(again.waitForFinished(120'000));
    QVERIFY2(again.exitStatus() == QProcess::NormalExit && again.exitCode() == 0, again.readAll().constData());
}

void TestReadable::cleanupTestCase()
{
    applyTheme(*qApp, ThemeKind::Light);
    m_window.reset();
    m_state.reset();
}

PLANLOOM_UI_MAIN(TestReadable)
#include "tst_readable.moc"
