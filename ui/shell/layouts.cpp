// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/layouts.h"

#include <QCoreApplication>

namespace planloom::ui {

namespace {

QStringList dockNames(std::initializer_list<const char *> docks)
{
    QStringList all;
    for (const char *each : docks)
        all << QString::fromLatin1(each);
    return all;
}

} // namespace

std::vector<DockColumn> columnsOf(Layout layout)
{
    switch (layout) {
    case Layout::Plan: // the editors have the width of the window; inputs and results stand beside them
        return {{{{dockNames({"Model", "Cluster"}), 410}, {dockNames({"Memory", "Run"}), 370}}, 410},
                {{{dockNames({"Plan", "Placement"}), 330}, {dockNames({"Timeline", "Runs", "Compare"}), 450}}, 990}};
    case Layout::Watch:
        return {{{{dockNames({"Run", "Plan", "Placement"}), 460}, {dockNames({"Memory", "Model", "Cluster"}), 320}},
                 520},
                {{{dockNames({"Timeline", "Compare"}), 560}, {dockNames({"Runs"}), 220}}, 880}};
    case Layout::Compare:
        return {{{{dockNames({"Runs", "Run"}), 400}, {dockNames({"Plan", "Model", "Cluster", "Placement"}), 380}}, 500},
                {{{dockNames({"Compare"}), 480}, {dockNames({"Timeline", "Memory"}), 300}}, 900}};
    }
    return {};
}

QString layoutTitle(Layout layout)
{
    switch (layout) {
    case Layout::Plan: return QCoreApplication::translate("Layout", "Plan");
    case Layout::Watch: return QCoreApplication::translate("Layout", "Watch");
    case Layout::Compare: return QCoreApplication::translate("Layout", "Compare");
    }
    return {};
}

QString layoutName(Layout layout)
{
    switch (layout) {
    case Layout::Plan: return QStringLiteral("plan");
    case Layout::Watch: return QStringLiteral("watch");
    case Layout::Compare: return QStringLiteral("compare");
    }
    return {};
}

std::optional<Layout> layoutNamed(const QString &name)
{
    for (const Layout layout : {Layout::Plan, Layout::Watch, Layout::Compare})
        if (layoutName(layout) == name)
            return layout;
    return std::nullopt;
}

} // namespace planloom::ui
