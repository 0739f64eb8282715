// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/watched_main.h"

#include "ui/theme/theme.h"
#include "ui/timeline/legend.h"
#include "ui/timeline/texture.h"

#include <QApplication>
#include <QImage>
#include <QPainter>
#include <QStyle>
#include <QStyleOption>
#include <QTest>

#include <set>

using namespace planloom;
using namespace planloom::ui;

class TestTheme : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void contrastByHand();
    void textReads_data();
    void textReads();
    void theRampRises_data() { textReads_data(); }
    void theRampRises();
    void edgesOfFieldsAreSeen_data() { textReads_data(); }
    void edgesOfFieldsAreSeen();
    void checkedToolsAreSeen_data() { textReads_data(); }
    void checkedToolsAreSeen();
    void theLegendTakesTheLinesThatItNeeds();
    void kindsDifferWithoutColour();
    void iconsAreThere_data();
    void iconsAreThere();
    void switching();
};

void TestTheme::contrastByHand()
{
    QVERIFY(std::abs(contrast(Qt::black, Qt::white) - 21) < 1e-9);
    QVERIFY(std::abs(contrast(Qt::red, Qt::red) - 1) < 1e-9);
    QVERIFY(std::abs(contrast(QColor(0x77, 0x77, 0x77), Qt::white) - 4.48) < 0.01); // WCAG's own borderline example
}

void TestTheme::textReads_data()
{
    QTest::addColumn<int>("number");
    const auto themes = allThemes();
    for (int k = 0; k < static_cast<int>(themes.size()); ++k)
        QTest::newRow(qPrintable(themes[static_cast<std::size_t>(k)].name)) << k;
}

void TestTheme::textReads()
{
    QFETCH(int, number);
    const Theme t = allThemes()[static_cast<std::size_t>(number)];
    constexpr double kAa = 4.5;
    for (const QColor &paper : {t.window, t.base, t.alternateBase}) {
        QVERIFY(contrast(t.text, paper) >= kAa);
        QVERIFY(contrast(t.dimText, paper) >= kAa);
        QVERIFY(contrast(t.error, paper) >= kAa);
    }
    QVERIFY(contrast(t.text, t.button) >= kAa);
    QVERIFY(contrast(t.accentText, t.accent) >= kAa);
    QVERIFY(contrast(t.info, t.infoBase) >= kAa);
    QVERIFY(contrast(t.warning, t.warningBase) >= kAa);
    QVERIFY(contrast(t.error, t.errorBase) >= kAa);
    for (const auto &[name, color] : t.hues)
        QVERIFY(contrast(textOn(color), color) >= kAa);
    for (const QColor &color : t.series)
        QVERIFY(contrast(textOn(color), color) >= kAa);
}

void TestTheme::theRampRises()
{
    QFETCH(int, number);
    constexpr ThemeKind kKinds[] = {ThemeKind::Light, ThemeKind::Dark, ThemeKind::HighContrast};
    applyTheme(*qApp, kKinds[number]);
    double before = contrast(ramp(0), theme().base);
    QVERIFY(before < 1.3); // nothing to see where there is nothing
    for (int tenth = 1; tenth <= 10; ++tenth) {
        const QColor color = ramp(tenth / 10.0);
        QVERIFY(contrast(color, theme().base) > before);
        QVERIFY(contrast(textOn(color), color) >= 4.5);
        before = contrast(color, theme().base);
    }
    QVERIFY(before >= 7);
    QCOMPARE(ramp(2), ramp(1));
    applyTheme(*qApp, ThemeKind::Light);
}

void TestTheme::edgesOfFieldsAreSeen()
{
    QFETCH(int, number);
    constexpr ThemeKind kKinds[] = {ThemeKind::Light, ThemeKind::Dark, ThemeKind::HighContrast};
    applyTheme(*qApp, kKinds[number]);
    QStyleOptionButton box;
    box.rect = QRect(0, 0, 16, 16);
    box.palette = qApp->palette();
    box.state = QStyle::State_Enabled | QStyle::State_Off;
    QImage picture(16, 16, QImage::Format_RGB32);
    picture.fill(theme().base);
    QPainter painter(&picture);
    qApp->style()->drawPrimitive(QStyle::PE_IndicatorItemViewItemCheck, &box, &painter);
    painter.end();
    double best = 0;
    for (int x = 0; x < 3; ++x) // the edge's place is the style's own
        best = std::max(best, contrast(picture.pixelColor(x, 8), theme().base));
    const double enough = theme().dark ? 3.0 : 1.3; // WCAG 1.4.11; the light theme has Fusion's own
    QVERIFY2(best >= enough, qPrintable(QString::number(best)));
    applyTheme(*qApp, ThemeKind::Light);
}

void TestTheme::checkedToolsAreSeen()
{
    QFETCH(int, number);
    constexpr ThemeKind kKinds[] = {ThemeKind::Light, ThemeKind::Dark, ThemeKind::HighContrast};
    applyTheme(*qApp, kKinds[number]);
    QStyleOptionToolButton tool;
    tool.rect = QRect(0, 0, 24, 24);
    tool.palette = qApp->palette();
    tool.state = QStyle::State_Enabled | QStyle::State_AutoRaise | QStyle::State_On;
    QImage picture(24, 24, QImage::Format_RGB32);
    picture.fill(theme().window);
    QPainter painter(&picture);
    qApp->style()->drawPrimitive(QStyle::PE_PanelButtonTool, &tool, &painter);
    painter.end();
    QVERIFY(contrast(picture.pixelColor(12, 21), theme().window) >= 3.0);
    applyTheme(*qApp, ThemeKind::Light);
}

void TestTheme::theLegendTakesTheLinesThatItNeeds()
{
    const Legend legend;
    const int wide = legend.sizeHint().width();
    const int line = legend.heightForWidth(wide);
    QCOMPARE(line, legend.sizeHint().height());
    QCOMPARE(legend.heightForWidth(wide - 40), 2 * line);
    QVERIFY(legend.heightForWidth(wide / 4) >= 4 * line);
}

void TestTheme::kindsDifferWithoutColour()
{
    // The eight-pixel tiles of forward, backward, recompute, optimizer and bubble as black-and-white patterns: all
    // different.
    applyTheme(*qApp, ThemeKind::Light);
    const KindStyles styles;
    std::set<QByteArray> patterns;
    const auto pattern = [](const QBrush &brush) {
        const QImage tile = brush.textureImage();
        if (tile.isNull())
            return QByteArray("plain");
        QByteArray bits;
        for (int y = 0; y < tile.height(); ++y) {
            for (int x = 0; x < tile.width(); ++x)
                bits.append(tile.pixel(x, y) == tile.pixel(3, 1) ? '0' : '1');
        }
        return bits;
    };
    for (const auto kind : {trace::Kind::Forward, trace::Kind::Backward, trace::Kind::Recompute, trace::Kind::Optimizer,
                            trace::Kind::WeightGradient})
        patterns.insert(pattern(styles.of(trace::standard(kind)).texture));
    patterns.insert(pattern(styles.bubble()));
    QCOMPARE(patterns.size(), std::size_t(6));
    for (const auto kind : {trace::Kind::Send, trace::Kind::Receive, trace::Kind::AllReduce})
        QVERIFY(styles.of(trace::standard(kind)).outline.isValid());
}

void TestTheme::iconsAreThere_data()
{
    QTest::addColumn<QString>("name");
    for (const char *name : {"open", "save", "undo", "redo", "plan", "train", "stop", "palette", "help", "zoom-in",
                             "zoom-out", "fit", "back", "follow", "lanes", "table", "export", "close", "planloom"})
        QTest::newRow(name) << QString::fromLatin1(name);
}

void TestTheme::iconsAreThere()
{
    QFETCH(QString, name);
    const QImage image = icon(name).pixmap(24, 24).toImage();
    QVERIFY(!image.isNull());
    bool inked = false;
    for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x)
            inked = inked || qAlpha(image.pixel(x, y)) > 128;
    }
    QVERIFY2(inked, "an empty picture");
}

void TestTheme::switching()
{
    applyTheme(*qApp, ThemeKind::Dark);
    QVERIFY(theme().dark);
    QCOMPARE(qApp->palette().color(QPalette::Base), theme().base);
    applyTheme(*qApp, ThemeKind::HighContrast);
    QVERIFY(contrast(theme().text, theme().window) > 20);
    applyTheme(*qApp, ThemeKind::Light);
    QVERIFY(!theme().dark);
}

PLANLOOM_UI_MAIN(TestTheme)
#include "tst_theme.moc"
