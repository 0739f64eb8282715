// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/theme/theme.h"

#include <QApplication>
#include <QFile>
#include <QPainter>
#include <QPalette>
#include <QPixmap>
#include <QProxyStyle>
#include <QStyleFactory>
#include <QStyleOption>
#include <QSvgRenderer>

#include <algorithm>
#include <cmath>

/// A static library's resources are linked only on request, from the global namespace.
static void loadResources() { Q_INIT_RESOURCE(studio); }

namespace planloom::ui {

namespace {

// Okabe and Ito's set, told apart by all common kinds of colour blindness.
const QColor kOrange(0xE6, 0x9F, 0x00), kSky(0x56, 0xB4, 0xE9), kGreen(0x00, 0x9E, 0x73), kYellow(0xF0, 0xE4, 0x42);
const QColor kBlue(0x00, 0x72, 0xB2), kVermilion(0xD5, 0x5E, 0x00), kPurple(0xCC, 0x79, 0xA7), kGrey(0x99, 0x99, 0x99);

const std::vector<Hue> kHues{{"sky", kSky},       {"orange", kOrange},       {"yellow", kYellow}, {"green", kGreen},
                             {"purple", kPurple}, {"vermilion", kVermilion}, {"grey", kGrey}};
const std::array<QColor, kSeriesColors> kSeries{kBlue, kOrange, kGreen, kPurple, kSky, kVermilion, kYellow, kGrey};

Theme light()
{
    Theme t;
    t.name = QStringLiteral("light");
    t.window = QColor(0xF5, 0xF6, 0xF8);
    t.base = QColor(0xFF, 0xFF, 0xFF);
    t.alternateBase = QColor(0xF7, 0xF8, 0xFA);
    t.text = QColor(0x1B, 0x1F, 0x24);
    t.dimText = QColor(0x57, 0x60, 0x6A);
    t.border = QColor(0xCF, 0xD4, 0xDA);
    t.button = QColor(0xEC, 0xEE, 0xF1);
    t.accent = QColor(0x0B, 0x5C, 0xAD);
    t.accentText = Qt::white;
    t.info = QColor(0x0A, 0x4A, 0x86);
    t.warning = QColor(0x6B, 0x47, 0x00);
    t.error = QColor(0x9B, 0x1C, 0x1C);
    t.infoBase = QColor(0xE3, 0xF0, 0xFB);
    t.warningBase = QColor(0xFF, 0xF3, 0xD6);
    t.errorBase = QColor(0xFD, 0xE7, 0xE7);
    t.grid = QColor(0xE3, 0xE6, 0xEA);
    t.cursor = QColor(0x1B, 0x1F, 0x24);
    t.bubble = QColor(0xF2, 0xF3, 0xF5);
    t.bubbleHatch = QColor(0xD3, 0xD8, 0xDE);
    t.rampLow = QColor(0xF4, 0xF8, 0xFC);
    t.rampHigh = QColor(0x0B, 0x3C, 0x7A);
    t.hues = kHues;
    t.series = kSeries;
    return t;
}

Theme dark()
{
    Theme t;
    t.name = QStringLiteral("dark");
    t.dark = true;
    t.window = QColor(0x1E, 0x21, 0x26);
    t.base = QColor(0x16, 0x19, 0x1D);
    t.alternateBase = QColor(0x1B, 0x1F, 0x24);
    t.text = QColor(0xE6, 0xE9, 0xED);
    t.dimText = QColor(0xA6, 0xAF, 0xBA);
    t.border = QColor(0x3A, 0x40, 0x48);
    t.button = QColor(0x2A, 0x2E, 0x35);
    t.accent = QColor(0x2F, 0x6F, 0xB5);
    t.accentText = Qt::white;
    t.info = QColor(0x9C, 0xCB, 0xF5);
    t.warning = QColor(0xF2, 0xC9, 0x6B);
    t.error = QColor(0xFF, 0xA3, 0x9C);
    t.infoBase = QColor(0x17, 0x2B, 0x3F);
    t.warningBase = QColor(0x3A, 0x2E, 0x12);
    t.errorBase = QColor(0x44, 0x1C, 0x1C);
    t.grid = QColor(0x2C, 0x31, 0x38);
    t.cursor = QColor(0xE6, 0xE9, 0xED);
    t.bubble = QColor(0x20, 0x24, 0x29);
    t.bubbleHatch = QColor(0x3C, 0x43, 0x4C);
    t.rampLow = QColor(0x1B, 0x24, 0x2D);
    t.rampHigh = QColor(0xA8, 0xD8, 0xFF);
    t.hues = kHues;
    t.series = kSeries;
    t.series[0] = QColor(0x3D, 0x9B, 0xD9); // blue is too dark to see on black
    return t;
}

Theme highContrast()
{
    Theme t;
    t.name = QStringLiteral("high contrast");
    t.dark = true;
    t.window = Qt::black;
    t.base = Qt::black;
    t.alternateBase = QColor(0x12, 0x12, 0x12);
    t.text = Qt::white;
    t.dimText = Qt::white;
    t.border = Qt::white;
    t.button = Qt::black;
    t.accent = QColor(0xFF, 0xE1, 0x00);
    t.accentText = Qt::black;
    t.info = Qt::white;
    t.warning = QColor(0xFF, 0xE1, 0x00);
    t.error = QColor(0xFF, 0xB0, 0xB0);
    t.infoBase = Qt::black;
    t.warningBase = Qt::black;
    t.errorBase = Qt::black;
    t.grid = QColor(0x55, 0x55, 0x55);
    t.cursor = QColor(0xFF, 0xE1, 0x00);
    t.bubble = Qt::black;
    t.bubbleHatch = QColor(0x80, 0x80, 0x80);
    t.rampLow = Qt::black;
    t.rampHigh = QColor(0x5C, 0xC8, 0xFF);
    t.hues = kHues;
    t.series = kSeries;
    t.series[0] = QColor(0x5C, 0xC8, 0xFF);
    return t;
}

Theme g_theme = light();
ThemeKind g_kind = ThemeKind::Light;

QPalette paletteOf(const Theme &t)
{
    QPalette p;
    p.setColor(QPalette::Window, t.window);
    p.setColor(QPalette::WindowText, t.text);
    p.setColor(QPalette::Base, t.base);
    p.setColor(QPalette::AlternateBase, t.alternateBase);
    p.setColor(QPalette::Text, t.text);
    p.setColor(QPalette::PlaceholderText, t.dimText);
    p.setColor(QPalette::Button, t.button);
    p.setColor(QPalette::ButtonText, t.text);
    p.setColor(QPalette::BrightText, t.error);
    p.setColor(QPalette::ToolTipBase, t.base);
    p.setColor(QPalette::ToolTipText, t.text);
    p.setColor(QPalette::Highlight, t.accent);
    p.setColor(QPalette::HighlightedText, t.accentText);
    p.setColor(QPalette::Link, t.info);
    p.setColor(QPalette::LinkVisited, t.info);
    p.setColor(QPalette::Light, t.dark ? t.button.lighter(140) : QColor(Qt::white));
    p.setColor(QPalette::Midlight, t.button);
    p.setColor(QPalette::Mid, t.border);
    p.setColor(QPalette::Dark, t.border);
    p.setColor(QPalette::Shadow, t.dark ? QColor(Qt::black) : t.border);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, t.dark ? QColor(0x7C, 0x84, 0x8E) : QColor(0x8A, 0x92, 0x9B));
    return p;
}

QString sheetOf(const Theme &t)
{
    return QStringLiteral("QToolTip { color: %1; background: %2; border: 1px solid %3; padding: 4px; }"
                          "QMainWindow::separator { background: %4; width: 5px; height: 5px; }"
                          "QMainWindow::separator:hover { background: %5; }"
                          "QHeaderView::section { background: %4; color: %1; border: none; border-bottom: 1px solid %3;"
                          " border-right: 1px solid %3; padding: 3px 6px; }"
                          "QTableView, QTreeView, QListView { border: 1px solid %3; gridline-color: %6; }"
                          "QDockWidget { font-weight: 600; }")
        .arg(t.text.name(), t.base.name(), t.border.name(), t.window.name(), t.accent.name(), t.grid.name());
}

double luminance(const QColor &c)
{
    const auto linear = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
    return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
}

/// Fusion draws the edges of fields and boxes darker than the window: on dark themes they are invisible.
class EdgedStyle final : public QProxyStyle {
public:
    EdgedStyle() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

    void drawPrimitive(PrimitiveElement element, const QStyleOption *option, QPainter *painter,
                       const QWidget *widget) const override
    {
        QProxyStyle::drawPrimitive(element, option, painter, widget);
        if (element == PE_PanelButtonTool && (option->state & State_On))
            drawChecked(*option, painter);
        const bool field =
            element == PE_FrameLineEdit || element == PE_IndicatorCheckBox || element == PE_IndicatorItemViewItemCheck;
        if (field && !(option->state & State_HasFocus))
            drawEdge(*option, painter);
    }
    void drawComplexControl(ComplexControl control, const QStyleOptionComplex *option, QPainter *painter,
                            const QWidget *widget) const override
    {
        QProxyStyle::drawComplexControl(control, option, painter, widget);
        const auto *spin = qstyleoption_cast<const QStyleOptionSpinBox *>(option);
        const auto *combo = qstyleoption_cast<const QStyleOptionComboBox *>(option);
        if (((spin && spin->frame) || (combo && combo->frame)) && !(option->state & State_HasFocus))
            drawEdge(*option, painter);
    }

private:
    /// A bar below the icon, and an edge: Fusion only darkens the button.
    static void drawChecked(const QStyleOption &option, QPainter *painter)
    {
        drawEdge(option, painter);
        const QRect inner = option.rect.adjusted(1, 1, -1, -1);
        painter->fillRect(inner.adjusted(0, inner.height() - 3, 0, 0), theme().accent);
    }
    static void drawEdge(const QStyleOption &option, QPainter *painter)
    {
        if (!theme().dark)
            return;
        painter->save();
        painter->setPen(option.state & State_Enabled ? theme().dimText : theme().border);
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(option.rect.adjusted(0, 0, -1, -1));
        painter->restore();
    }
};

} // namespace

const Theme &theme() { return g_theme; }

const QColor &Theme::hue(std::string_view key) const
{
    const auto found = std::ranges::find(hues, key, &Hue::name);
    return found == hues.end() ? kGrey : found->color;
}

ThemeKind currentThemeKind() { return g_kind; }

void applyTheme(QApplication &app, ThemeKind kind)
{
    static const bool systemIsDark = app.palette().color(QPalette::Window).lightness() < 128;
    g_kind = kind;
    if (kind == ThemeKind::System)
        kind = systemIsDark ? ThemeKind::Dark : ThemeKind::Light;
    g_theme = kind == ThemeKind::HighContrast ? highContrast() : (kind == ThemeKind::Dark ? dark() : light());
    app.setStyle(new EdgedStyle);
    app.setPalette(paletteOf(g_theme));
    app.setStyleSheet(sheetOf(g_theme));
}

std::vector<Theme> allThemes() { return {light(), dark(), highContrast()}; }

double contrast(const QColor &a, const QColor &b)
{
    const double x = luminance(a);
    const double y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

QColor veil()
{
    constexpr int kAlpha = 150;
    QColor color = theme().base;
    color.setAlpha(kAlpha);
    return color;
}

QColor textOn(const QColor &background)
{
    return contrast(background, Qt::black) >= contrast(background, Qt::white) ? Qt::black : Qt::white;
}

QColor ramp(double share)
{
    const QColor &low = g_theme.rampLow;
    const QColor &high = g_theme.rampHigh;
    const double at = std::clamp(share, 0.0, 1.0);
    const auto mix = [at](int a, int b) { return static_cast<int>(std::lround(a + (b - a) * at)); };
    return QColor(mix(low.red(), high.red()), mix(low.green(), high.green()), mix(low.blue(), high.blue()));
}

QIcon icon(const QString &name)
{
    static const bool loaded = (loadResources(), true);
    (void)loaded;
    QFile file(QStringLiteral(":/icons/%1.svg").arg(name));
    if (!file.open(QIODevice::ReadOnly))
        return {};
    QByteArray svg = file.readAll();
    svg.replace("currentColor", g_theme.text.name().toUtf8());
    QSvgRenderer renderer(svg);
    QIcon result;
    for (const int size : {16, 24, 32, 48}) {
        QPixmap pixmap(size, size);
        pixmap.fill(Qt::transparent);
        QPainter painter(&pixmap);
        renderer.render(&painter);
        result.addPixmap(pixmap);
    }
    return result;
}

} // namespace planloom::ui
