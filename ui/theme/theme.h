// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QIcon>
#include <QString>

#include <array>
#include <string_view>
#include <vector>

class QApplication;

namespace planloom::ui {

enum class ThemeKind { System, Light, Dark, HighContrast };

inline constexpr int kSeriesColors = 8;

/// A colour with the name under which tests and pictures list it.
struct Hue {
    std::string_view name;
    QColor color;
};

/// Every colour that the studio paints with, by meaning. Text tokens have a contrast of at least 4.5:1 on `window` and
/// `base`.
struct Theme {
    QString name;
    bool dark = false;
    QColor window, base, alternateBase, text, dimText, border, button;
    QColor accent, accentText;   ///< selection background and its text
    QColor info, warning, error; ///< text of messages
    QColor infoBase, warningBase, errorBase;
    QColor grid, cursor;                      ///< lines of rulers and charts; marks under the mouse
    QColor bubble, bubbleHatch;               ///< idle time on a compute lane
    QColor rampLow, rampHigh;                 ///< ends of a sequential scale, see ramp()
    std::vector<Hue> hues;                    ///< of kinds of tasks, Okabe-Ito
    std::array<QColor, kSeriesColors> series; ///< Okabe-Ito, for stages, devices, curves

    /// By the name that a trace's table of kinds gives (trace::KindInfo::hue); grey if there is none of that name.
    [[nodiscard]] const QColor &hue(std::string_view key) const;
    /// Colour of stage, device or curve number @p index; repeats after eight, so that it is never the only sign.
    [[nodiscard]] const QColor &ofSeries(int index) const
    {
        return series[static_cast<std::size_t>(index) % kSeriesColors];
    }
};

/// The theme in force. Changes with applyTheme(); widgets hear of it as QEvent::PaletteChange.
const Theme &theme();
/// System: light or dark, by the lightness of the palette that the application started with.
void applyTheme(QApplication &app, ThemeKind kind);
ThemeKind currentThemeKind();
/// Light, Dark, HighContrast: for tests.
std::vector<Theme> allThemes();

/// WCAG 2 contrast ratio, 1..21.
double contrast(const QColor &a, const QColor &b);
/// Laid over a picture that is about to change, so that it looks pale.
QColor veil();
/// Black or white, whichever reads better on @p background.
QColor textOn(const QColor &background);
/// Colour of @p share (0..1) on the theme's sequential scale: the further up, the further from `base` in lightness.
/// Text on it in textOn() of it.
QColor ramp(double share);
/// An icon of resources/icons, drawn in the theme's text colour. Ask again after a change of theme.
QIcon icon(const QString &name);

} // namespace planloom::ui
