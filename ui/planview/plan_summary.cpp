// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_summary.h"

#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kSamePoint = 5e-4; // of a fraction: less is not shown by "12.3 %"

/// " (▲ 3.10 % longer)"; nothing where there is nothing to compare with.
QString change(double before, double after, const QString &more, const QString &less)
{
    const QString text = changeText(before, after);
    if (text == changeText(1, 1))
        return QObject::tr(" (no change)");
    return QStringLiteral(" (%1 %2)").arg(text, after > before ? more : less);
}

QString points(double before, double after)
{
    if (std::abs(after - before) < kSamePoint)
        return QObject::tr(" (no change)");
    const QString arrow = after > before ? QObject::tr("▲ %1 points more") : QObject::tr("▼ %1 points less");
    return QStringLiteral(" (%1)").arg(arrow.arg(std::abs(after - before) * 100, 0, 'f', 1));
}

} // namespace

QString predictionText(const simulate::Report &now, const std::optional<simulate::Report> &before)
{
    QStringList parts;
    parts << QObject::tr("Iteration %1").arg(secondsText(now.iterationSeconds));
    parts << QObject::tr("%1 samples/s").arg(now.samplesPerSecond, 0, 'f', now.samplesPerSecond < 100 ? 2 : 0);
    parts << QObject::tr("bubbles %1").arg(percentText(now.bubbleFraction));
    parts << QObject::tr("speed-up %1× over one device").arg(now.speedupOverOneDevice, 0, 'f', 2);
    if (before) {
        parts[0] +=
            change(before->iterationSeconds, now.iterationSeconds, QObject::tr("longer"), QObject::tr("shorter"));
        parts[1] += change(before->samplesPerSecond, now.samplesPerSecond, QObject::tr("more"), QObject::tr("less"));
        parts[2] += points(before->bubbleFraction, now.bubbleFraction);
    }
    QString fits = now.fits ? QObject::tr("fits in memory") : QObject::tr("! does not fit in memory");
    if (before && before->fits != now.fits)
        fits += now.fits ? QObject::tr(" (did not before)") : QObject::tr(" (did before)");
    parts << fits;
    return parts.join(QStringLiteral("  ·  "));
}

QString estimateText(const plan::Plan &plan, const simulate::Report &now)
{
    const auto seconds = plan.estimate.find("iteration_seconds");
    if (seconds == plan.estimate.end())
        return {};
    QString text = QObject::tr("%1 estimated %2").arg(qt(plan.planner.name), secondsText(seconds->second));
    if (seconds->second > 0)
        text += QObject::tr(", simulated %1%2")
                    .arg(secondsText(now.iterationSeconds),
                         change(seconds->second, now.iterationSeconds, QObject::tr("longer"), QObject::tr("shorter")));
    if (const auto speedup = plan.estimate.find("speedup_over_one_device"); speedup != plan.estimate.end())
        text += QObject::tr("  ·  estimated speed-up %1×").arg(speedup->second, 0, 'f', 2);
    if (plan.estimate.contains("stopped_early"))
        text = QObject::tr("! search stopped early; best plan so far  ·  ") + text;
    return text + QObject::tr("  ·  lower bound for any schedule %1").arg(secondsText(now.lowerBoundSeconds));
}

} // namespace planloom::ui
