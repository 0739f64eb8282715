// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/stage_table.h"

#include "engine/plan/device_text.h"
#include "engine/plan/edit.h"
#include "engine/plan/node_spans.h"
#include "engine/plan/stage_edits.h"
#include "engine/plan/validate.h"
#include "ui/planview/stage_figures.h"
#include "ui/planview/stage_locks.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>
#include <QStringList>

#include <algorithm>

namespace planloom::ui {

namespace {

Cell typed(const QString &text, std::optional<double> number, const QString &toolTip)
{
    Cell cell{text, number};
    cell.editable = true;
    cell.toolTip = toolTip;
    return cell;
}

QString recomputeText(plan::Recompute recompute)
{
    switch (recompute) {
    case plan::Recompute::None: return QObject::tr("no");
    case plan::Recompute::Selective: return QObject::tr("attention");
    case plan::Recompute::Layers: return QObject::tr("layers");
    case plan::Recompute::Full: break;
    }
    return QObject::tr("yes");
}

Cell warmUpCell(const plan::Plan &plan, std::size_t stage, int depth)
{
    const int cap = warmupCap(plan, stage);
    const QString text = cap == 0 ? QString::number(depth) : QObject::tr("%1 (cap)").arg(depth);
    return typed(
        text, depth,
        QObject::tr(
            "Forward passes before the first backward (K): a number sets a cap, \"auto\" leaves it to the schedule"));
}

double shareOf(const simulate::DeviceReport &device)
{
    return static_cast<double>(device.peakBytes) / std::max(static_cast<double>(device.capacityBytes), 1.0);
}

/// Of the fullest device; nullptr: not simulated.
Cell memoryCell(const simulate::DeviceReport *fullest)
{
    if (!fullest)
        return {QObject::tr("…"), std::nullopt};
    Cell cell{QObject::tr("%1 of %2").arg(bytesText(fullest->peakBytes), bytesText(fullest->capacityBytes)),
              static_cast<double>(fullest->peakBytes)};
    cell.bar = shareOf(*fullest);
    cell.warn = fullest->peakBytes > fullest->capacityBytes;
    cell.toolTip = QObject::tr("Peak of %1: %2 of its memory").arg(qt(fullest->id), percentText(shareOf(*fullest)));
    return cell;
}

/// @p seconds: as secondsOfStages() has them.
Cell timeCell(const plan::Plan &plan, std::optional<double> seconds, const plan::StageWhy *why)
{
    Cell cell{seconds ? secondsText(*seconds) : QObject::tr("…"), seconds};
    cell.toolTip = !plan.admm
        ? QObject::tr(
            "Forward + backward of one replica's slice of a micro-batch, the sum of its layers' costs: what the plan "
            "adds to them (copies, recomputation) or saves (gradients of tables that are exchanged by rows) is not in "
            "it, so that an iteration may be shorter. The bar compares with the slowest stage")
        : plan.admm->parallel == admm::Parallel::Asynchronous
        ? QObject::tr("What the busiest worker computes for a version of the parameters, as simulated")
        : QObject::tr("What the slowest worker computes in an iteration of ADMM, as simulated");
    if (!plan.admm && why != nullptr)
        cell.toolTip +=
            QObject::tr(". As simulated, %1 computes for %2 in an iteration: forward %3, backward %4, again %5")
                .arg(qt(why->device))
                .arg(secondsText(why->forwardSeconds + why->backwardSeconds + why->recomputeSeconds),
                     secondsText(why->forwardSeconds), secondsText(why->backwardSeconds),
                     secondsText(why->recomputeSeconds));
    return cell;
}

Cell tensorCell(const plan::Document &document, std::size_t index, const plan::Why *why)
{
    const plan::Stage &stage = document.plan.stages[index];
    const auto parts = static_cast<double>(stage.shards());
    const auto span = plan::nodeSpan(document.plan, index, *document.subject.cluster);
    Cell cell =
        typed(QString::number(stage.shards()), parts,
              QObject::tr("Devices that share the tensors of a replica: a number cuts attention and MLP blocks as "
                          "Megatron-LM does, 1 leaves them whole; the other devices are replicas. Stages that share a "
                          "parameter need the same number"));
    cell.warn = span.has_value();
    if (!span)
        return cell;
    const bool known = why != nullptr && index < why->stages.size();
    cell.toolTip = QObject::tr("The parts of a replica lie on %1 nodes: correct, only slow. ").arg(span->nodes)
        + (known ? QObject::tr("Their collectives take %1 of an iteration. ")
                       .arg(secondsText(why->stages[index].boxingSeconds))
                 : QString())
        + QObject::tr("%1 would stay within a node.\n").arg(span->parts) + cell.toolTip;
    return cell;
}

Cell zeroCell(const plan::Stage &stage)
{
    return typed(QString::number(stage.zero), stage.zero,
                 QObject::tr(
                     "What replicas share instead of each holding it whole: 0 nothing, 1 the optimizer's state, "
                     "2 gradients too, 3 parameters too"));
}

/// "attn/qkv.weight = B, S(1); …": those that are given; the others follow from them.
Cell shardingCell(const plan::Stage &stage)
{
    QStringList lines;
    for (const auto &[tensor, sbp] : stage.shardings)
        lines << QStringLiteral("%1 = %2").arg(qt(tensor), qt(sbp));
    Cell cell = typed(lines.join(QStringLiteral("; ")), std::nullopt, {});
    constexpr qsizetype kTipLines = 20;
    cell.toolTip = QObject::tr("Tensors and how the devices of the mesh hold them, such as h/*/mlp/up.weight = B,S(1); "
                               "the others follow. Several are separated by semicolons")
        + (lines.empty() ? QString() : QLatin1Char('\n') + lines.mid(0, kTipLines).join(QLatin1Char('\n')));
    if (lines.size() > kTipLines)
        cell.toolTip += QObject::tr("\nand %1 more").arg(lines.size() - kTipLines);
    return cell;
}

bool refuse(StudioState &state, const QString &why)
{
    state.say(MessageLevel::Error, why);
    return false;
}

/// Field @p key of the stage (engine/plan/edit.h).
bool editField(StudioState &state, std::size_t stage, const char *key, const QString &what, const QString &text)
{
    auto plan = plan::withStageValue(*state.document(), stage, key, text.toStdString());
    return plan ? state.replacePlan(what.arg(stage), *std::move(plan)) : refuse(state, qt(plan.error().text()));
}

} // namespace

TableData stageTable(const plan::Document &document, const simulate::Report *report, const plan::Why *why)
{
    TableData table{{QObject::tr("Stage"), QObject::tr("Devices"), QObject::tr("Recompute"), QObject::tr("Keep"),
                     QObject::tr("Layers"), QObject::tr("Replicas"),
                     document.plan.admm ? QObject::tr("Time") : QObject::tr("Layers' time"), QObject::tr("Parameters"),
                     QObject::tr("Warm-up"), QObject::tr("Peak memory"), QObject::tr("Tensor parts"),
                     QObject::tr("ZeRO"), QObject::tr("Sharding")},
                    {}};
    const plan::Plan &plan = document.plan;
    const std::vector<int> depths = plan::warmupDepths(plan);
    const std::vector<std::optional<double>> seconds = secondsOfStages(document, report);
    const double slowest = seconds.empty() ? 0 : std::max_element(seconds.begin(), seconds.end())->value_or(0);
    const auto fullest = report ? leadingDevices(document, *report, shareOf)
                                : std::vector<const simulate::DeviceReport *>(plan.stages.size());
    const planners::KeptStages locks = locksOf(document);
    const QString keepTip =
        QObject::tr("Planning again with what is kept leaves the stage its layers and its number of "
                    "devices. Planners that can: %1")
            .arg(plannersWithLocks());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const plan::Stage &stage = plan.stages[s];
        const auto replicas = static_cast<double>(stage.replicas());
        const std::int64_t parameters =
            document.subject.costs->parameterBytes(stage.firstLayer, stage.lastLayer).value();
        Cell name = typed(qt(stage.name), std::nullopt, QObject::tr("Double-click or press F2 to rename it"));
        name.swatch = theme().ofSeries(static_cast<int>(s));
        Cell recompute{recomputeText(stage.recompute), std::nullopt};
        recompute.check = stage.recompute != plan::Recompute::None;
        recompute.toolTip =
            QObject::tr("Keep only the stage's inputs and run forward again before backward: less memory, more time");
        Cell keep{stageLocked(locks, stage) ? QObject::tr("yes") : QObject::tr("no"), std::nullopt};
        keep.check = stageLocked(locks, stage);
        keep.toolTip = keepTip;
        Cell time = timeCell(plan, seconds[s], why != nullptr && s < why->stages.size() ? &why->stages[s] : nullptr);
        time.bar = slowest > 0 ? seconds[s].value_or(0) / slowest : 0;
        Cell layers = typed(QObject::tr("%1 – %2").arg(stage.firstLayer).arg(stage.lastLayer - 1),
                            static_cast<double>(stage.firstLayer),
                            QObject::tr("First and last layer; the neighbouring stages are adjusted"));
        Cell devices = typed(qt(plan::deviceText(*document.subject.cluster, stage.devices)), std::nullopt,
                             QObject::tr("Names separated by commas; n0:g0-3 stands for four devices"));
        Cell count = typed(qt(plan::replicaText(stage)), replicas,
                           stage.shards() > 1
                               ? QObject::tr("%1 replicas, each on %2 devices; a number makes so many plain replicas")
                                     .arg(stage.replicas())
                                     .arg(stage.shards())
                               : QObject::tr("More replicas take idle devices; fewer free devices"));
        table.rows.push_back({name,
                              devices,
                              recompute,
                              keep,
                              layers,
                              count,
                              time,
                              {bytesText(parameters), static_cast<double>(parameters)},
                              warmUpCell(plan, s, depths[s]),
                              memoryCell(fullest[s]),
                              tensorCell(document, s, why),
                              zeroCell(stage),
                              shardingCell(stage)});
    }
    return table;
}

bool editStage(StudioState &state, std::size_t stage, StageColumn column, const QVariant &value)
{
    if (!state.document() || stage >= state.document()->plan.stages.size())
        return false;
    const QString text = value.toString();
    switch (column) {
    case StageColumn::Name: return editField(state, stage, "name", QObject::tr("Rename stage %1"), text);
    case StageColumn::Layers: return editField(state, stage, "layers", QObject::tr("Layers of stage %1"), text);
    case StageColumn::Devices: return editField(state, stage, "devices", QObject::tr("Devices of stage %1"), text);
    case StageColumn::Replicas: return editField(state, stage, "replicas", QObject::tr("Devices of stage %1"), text);
    case StageColumn::Recompute:
        return state.editPlan(value.toBool() ? QObject::tr("Recompute stage %1").arg(stage)
                                             : QObject::tr("Keep the activations of stage %1").arg(stage),
                              [&](plan::Plan &plan) {
                                  plan.stages[stage].recompute =
                                      value.toBool() ? plan::Recompute::Full : plan::Recompute::None;
                              });
    case StageColumn::Keep: return toggleStageLock(state, stage);
    case StageColumn::WarmUp: return editField(state, stage, "warmup", QObject::tr("Warm-up of stage %1"), text);
    case StageColumn::Tensor:
        return editField(state, stage, "tensor_parts", QObject::tr("Tensor parts of stage %1"), text);
    case StageColumn::Zero: return editField(state, stage, "zero", QObject::tr("ZeRO level of stage %1"), text);
    case StageColumn::Sharding: return editField(state, stage, "shardings", QObject::tr("Sharding of stage %1"), text);
    case StageColumn::Time:
    case StageColumn::Parameters:
    case StageColumn::Memory: break;
    }
    return false;
}

} // namespace planloom::ui
