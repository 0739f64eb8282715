// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/plan_summary.h"

#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kSamePoint = 5e-4; // of a fraction: less is not shown by "12.3 %"

QString signedText(double value, int digits)
{
    return (value < 0 ? QStringLiteral("−") : QStringLiteral("+")) + QString::number(std::abs(value), 'f', digits);
}

/// " (+3.10 %)"; "no change" where there is nothing to compare with.
QString change(double before, double after)
{
    if (changeText(before, after) == changeText(1, 1))
        return QObject::tr(" (no change)");
    return QObject::tr(" (%1 %)").arg(signedText((after / before - 1) * 100, 2));
}

QString points(double before, double after)
{
    if (std::abs(after - before) < kSamePoint)
        return QObject::tr(" (no change)");
    return QObject::tr(" (%1 points)").arg(signedText((after - before) * 100, 1));
}

} // namespace

QString predictionText(const plan::Plan &plan, const simulate::Report &now,
                       const std::optional<simulate::Report> &before)
{
    QStringList parts;
    const bool versions = plan.admm && plan.admm->parallel == admm::Parallel::Asynchronous;
    parts << (versions ? QObject::tr("A version every %1") : QObject::tr("Iteration %1"))
                 .arg(secondsText(now.iterationSeconds));
    parts << QObject::tr("%1 samples/s").arg(now.samplesPerSecond, 0, 'f', now.samplesPerSecond < 100 ? 2 : 0);
    parts << QObject::tr("bubbles %1").arg(percentText(now.bubbleFraction));
    parts << QObject::tr("speed-up %1× over one device").arg(now.speedupOverOneDevice, 0, 'f', 2);
    if (before) {
        parts[0] += change(before->iterationSeconds, now.iterationSeconds);
        parts[1] += change(before->samplesPerSecond, now.samplesPerSecond);
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
    QString text = QObject::tr("%1 %2").arg(qt(plan.planner.name), secondsText(seconds->second));
    if (seconds->second > 0)
        text += QObject::tr(", simulator %1%2")
                    .arg(secondsText(now.iterationSeconds), change(seconds->second, now.iterationSeconds));
    if (const auto speedup = plan.estimate.find("speedup_over_one_device"); speedup != plan.estimate.end())
        text += QObject::tr("  ·  estimated speed-up %1×").arg(speedup->second, 0, 'f', 2);
    if (const auto hidden = plan.estimate.find("averaging_hidden_share"); hidden != plan.estimate.end())
        text += QObject::tr("  ·  average %1 hidden").arg(percentText(hidden->second, 0));
    if (plan.estimate.contains("stopped_early"))
        text = QObject::tr("! search stopped early; best plan so far  ·  ") + text;
    return text + QObject::tr("  ·  lower bound %1 for any schedule").arg(secondsText(now.lowerBoundSeconds));
}

QString notesText(const std::vector<std::string> &notes)
{
    QString text;
    for (const std::string &note : notes)
        text += QObject::tr("\nThe planner notes: %1").arg(qt(note));
    return text;
}

} // namespace planloom::ui
