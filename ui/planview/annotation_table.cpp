// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/annotation_table.h"

#include "ui/widgets/text.h"

#include <QObject>

#include <algorithm>
#include <map>
#include <optional>

namespace planloom::ui {

namespace {

const plan::Annotation *annotationOf(const plan::Plan &plan, const std::string &scope)
{
    const auto found = std::find_if(plan.annotations.begin(), plan.annotations.end(),
                                    [&](const plan::Annotation &each) { return each.scope == scope; });
    return found == plan.annotations.end() ? nullptr : &*found;
}

/// The stage that the layers lie in, if its layout follows the annotation; -1: none.
int stageLike(const plan::Plan &plan, const plan::Annotation &annotation, const AnnotationScopes::Scope &scope)
{
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const plan::Stage &stage = plan.stages[s];
        if (scope.first < stage.firstLayer || scope.last > stage.lastLayer)
            continue;
        const bool split = stage.shards() > 1;
        const bool wanted = annotation.kind == plan::Annotation::Kind::Split;
        const bool asMany = annotation.devices == 0
            || static_cast<int>(wanted ? stage.shards() : stage.replicas()) % annotation.devices == 0;
        return asMany && (split == wanted || annotation.devices == 1) ? static_cast<int>(s) : -1;
    }
    return -1;
}

Cell inThePlan(const plan::Plan &plan, const plan::Annotation *annotation, const AnnotationScopes::Scope &scope)
{
    if (!annotation || scope.name == plan::kOtherScopes)
        return {QString(), std::nullopt};
    if (const int stage = stageLike(plan, *annotation, scope); stage >= 0)
        return {QObject::tr("stage %1").arg(stage), static_cast<double>(stage)};
    Cell cell{QObject::tr("not yet: plan again"), -1.0};
    cell.warn = true;
    cell.toolTip = QObject::tr("The stages were made without this annotation; Plan again as annotated makes new ones");
    return cell;
}

} // namespace

void AnnotationScopes::read(const plan::Document &document)
{
    const plan::Subject &subject = document.subject;
    if (m_graph != subject.graph) {
        m_graph = subject.graph;
        m_ofModel = {{plan::kOtherScopes, 0, subject.layers().size()}};
        std::map<std::string_view, std::size_t> layers;
        for (std::size_t l = 0; l < subject.layers().size(); ++l)
            layers.emplace(subject.layers().layers[l].name, l);
        for (const std::string &name : plan::annotatableScopes(*subject.graph, subject.layers())) {
            const auto layer = layers.find(name);
            if (layer != layers.end())
                m_ofModel.push_back({name, layer->second, layer->second + 1});
            else if (const auto range = plan::layersOfScope(name, *subject.graph, subject.layers()))
                m_ofModel.push_back({name, range->first, range->last});
        }
    }
    m_all = m_ofModel;
    std::size_t runs = 0;
    for (const plan::Annotation &annotation : document.plan.annotations) {
        if (std::any_of(m_ofModel.begin(), m_ofModel.end(),
                        [&](const Scope &scope) { return scope.name == annotation.scope; }))
            continue;
        if (const auto range = plan::layersOfScope(annotation.scope, *subject.graph, subject.layers()))
            m_all.insert(m_all.begin() + static_cast<std::ptrdiff_t>(++runs),
                         {annotation.scope, range->first, range->last});
    }
}

TableData annotationTable(const plan::Document &document, const AnnotationScopes &scopes)
{
    TableData table{{QObject::tr("Scope"), QObject::tr("Strategy"), QObject::tr("Layers"), QObject::tr("In the plan")},
                    {}};
    for (const AnnotationScopes::Scope &scope : scopes.all()) {
        const plan::Annotation *annotation = annotationOf(document.plan, scope.name);
        Cell name{qt(scope.name), std::nullopt};
        if (scope.name == plan::kOtherScopes)
            name.toolTip = QObject::tr("Scopes without an annotation");
        Cell strategy{annotation ? qt(plan::strategyText(*annotation)) : QString(), std::nullopt};
        strategy.editable = true;
        strategy.toolTip = QObject::tr("split:4 cuts the scope's tensors into four parts, replicate:2 has two copies "
                                       "share the samples; an empty cell removes the annotation");
        Cell layers{QObject::tr("%1 – %2").arg(scope.first).arg(scope.last - 1), static_cast<double>(scope.first)};
        table.rows.push_back({name, strategy, layers, inThePlan(document.plan, annotation, scope)});
    }
    return table;
}

bool editAnnotation(StudioState &state, const std::string &scope, const QString &text)
{
    if (!state.document())
        return false;
    std::optional<plan::Annotation> wanted;
    if (const QString plain = text.trimmed(); !plain.isEmpty()) {
        const auto annotation = plan::annotationFromText(scope + "=" + plain.toStdString());
        if (!annotation) {
            state.say(MessageLevel::Error, qt(annotation.error().text()));
            return false;
        }
        wanted = *annotation;
    }
    const plan::Annotation *present = annotationOf(state.document()->plan, scope);
    if (present ? wanted == *present : !wanted)
        return true;
    const QString what = wanted ? QObject::tr("Annotate %1 as %2").arg(qt(scope), qt(plan::strategyText(*wanted)))
                                : QObject::tr("Remove the annotation of %1").arg(qt(scope));
    return state.editPlan(what, [&](plan::Plan &plan) {
        std::erase_if(plan.annotations, [&](const plan::Annotation &each) { return each.scope == scope; });
        if (wanted)
            plan.annotations.push_back(*wanted);
    });
}

bool planAsAnnotated(StudioState &state)
{
    if (!state.document())
        return false;
    const plan::Plan &plan = state.document()->plan;
    if (plan.annotations.empty()) {
        state.say(MessageLevel::Warning,
                  QObject::tr(
                      "There are no annotations yet; enter a strategy, such as split:4, beside a scope first."));
        return false;
    }
    PlanRequest request = state.requestLikeDocument({});
    request.planner = "whale";
    return state.runPlanner(request);
}

} // namespace planloom::ui
