// SPDX-License-Identifier: Apache-2.0
// Every planner on a grid of models and clusters, judged by one simulator: a table in Markdown, row by row as they are
// found, and the ratios that the page on the comparison speaks of. Arguments: [MODEL or -] [CLUSTER or -] [SECONDS]
// [auto]: only what contains these words; a planner that takes longer than so many seconds of processor time is stopped
// and gives the best that it has by then, marked by a star; with the last argument only auto runs.
#include "tests/bench/deadline.h"
#include "tests/bench/planner_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace planloom;

struct Answer {
    double seconds = 0; ///< 0: none
    double search = 0;
    bool stopped = false;
    std::string plan;
    double bound = 0;
};

using bench::gridMilliseconds;
using bench::GridModel;
using bench::Watch;

Answer ask(const planners::Planner &planner, const planners::Problem &problem, double limit)
{
    bench::Deadline deadline(Watch::Clock::Processor, limit);
    const Watch watch(Watch::Clock::Processor);
    const auto report = planner.plan(problem, {}, deadline);
    Answer answer;
    answer.search = watch.seconds();
    answer.stopped = deadline.stopped();
    if (!report || !report->predicted.fits)
        return answer;
    answer.seconds = report->predicted.iterationSeconds;
    answer.plan = plan::notation(report->plan);
    if (const auto bound = report->plan.estimate.find("lower_bound_seconds"); bound != report->plan.estimate.end())
        answer.bound = bound->second;
    return answer;
}

/// Ratios of one pair of planners over the grid.
class Ratios {
public:
    void add(double ratio) { m_values.push_back(ratio); }
    void print(const char *what)
    {
        if (m_values.empty())
            return;
        std::sort(m_values.begin(), m_values.end());
        const auto better =
            std::count_if(m_values.begin(), m_values.end(), [](double ratio) { return ratio > 1 + 1e-6; });
        const auto worse =
            std::count_if(m_values.begin(), m_values.end(), [](double ratio) { return ratio < 1 - 1e-6; });
        std::printf("%-34s median %.3f x, least %.3f x, most %.3f x; better in %td, worse in %td of %zu\n", what,
                    m_values[m_values.size() / 2], m_values.front(), m_values.back(), better, worse, m_values.size());
    }

private:
    std::vector<double> m_values;
};

class Grid {
public:
    Grid(double limit, bool onlyAuto) : m_limit(limit)
    {
        for (const planners::Planner *planner : planners::allPlanners())
            if (planner->name() != "manual" && (!onlyAuto || planner->name() == "auto")) // manual does what it is told
                m_planners.push_back(planner);
    }

    void printHead() const
    {
        std::printf("| model | cluster |");
        for (const planners::Planner *planner : m_planners)
            std::printf(" %s |", planner->name().c_str());
        std::printf(" gap of auto | plan of auto | search of auto |\n|---|---|");
        for (std::size_t i = 0; i < m_planners.size(); ++i)
            std::printf("--:|");
        std::printf("--:|---|--:|\n");
    }

    void row(const GridModel &model, const import::Model &imported, const cluster::Cluster &cluster)
    {
        const planners::Problem problem = bench::gridProblem(model, imported, cluster);
        std::map<std::string, Answer> answers;
        for (const planners::Planner *planner : m_planners)
            answers[planner->name()] = ask(*planner, problem, m_limit);
        print(model, cluster, answers);
        if (m_planners.size() > 1)
            compare(answers);
    }

    void printRatios()
    {
        std::printf("\n");
        m_auto.print("best of the others against auto");
        for (auto &[name, ratios] : m_spp)
            ratios.print((name + " against spp").c_str());
    }

private:
    void print(const GridModel &model, const cluster::Cluster &cluster,
               const std::map<std::string, Answer> &answers) const
    {
        std::printf("| %s | %s |", model.name, cluster.name().c_str());
        for (const planners::Planner *planner : m_planners)
            std::printf(" %s%s |", gridMilliseconds(answers.at(planner->name()).seconds).c_str(),
                        answers.at(planner->name()).stopped ? "*" : "");
        const Answer &best = answers.at("auto");
        if (best.seconds > 0 && best.bound <= 0)
            std::printf(" - | %s | %.1f s |\n", best.plan.c_str(), best.search);
        else if (best.seconds > 0)
            std::printf(" %.1f %% | %s | %.1f s |\n", 100 * (best.seconds / best.bound - 1), best.plan.c_str(),
                        best.search);
        else
            std::printf(" | nothing fits | %.1f s |\n", best.search);
        std::fflush(stdout);
    }

    void compare(const std::map<std::string, Answer> &answers)
    {
        double best = INFINITY;
        for (const auto &[name, answer] : answers)
            if (name != "auto" && answer.seconds > 0)
                best = std::min(best, answer.seconds);
        if (answers.at("auto").seconds > 0 && std::isfinite(best))
            m_auto.add(best / answers.at("auto").seconds);
        for (const char *other : {"gpipe", "pipedream", "dapple"})
            if (answers.at("spp").seconds > 0 && answers.at(other).seconds > 0)
                m_spp[other].add(answers.at(other).seconds / answers.at("spp").seconds);
    }

    double m_limit; ///< seconds for each planner
    std::vector<const planners::Planner *> m_planners;
    Ratios m_auto;
    std::map<std::string, Ratios> m_spp;
};

bool wanted(const char *name, int argc, char **argv, int index)
{
    return argc <= index || std::string(argv[index]) == "-" || std::string(name).find(argv[index]) != std::string::npos;
}

} // namespace

int main(int argc, char **argv)
{
    std::printf("Milliseconds of one iteration, by the simulator; -: nothing found that fits; *: stopped, the best by "
                "then.\n\n");
    Grid grid(argc > 3 ? std::atof(argv[3]) : std::numeric_limits<double>::infinity(),
              argc > 4 && std::string(argv[4]) == "auto");
    grid.printHead();
    for (const GridModel &model : bench::kGridModels) {
        if (!wanted(model.name, argc, argv, 1))
            continue;
        const auto imported = import::loadModel(std::string("zoo:") + model.name);
        if (!imported) {
            std::fprintf(stderr, "%s\n", imported.error().text().c_str());
            return 1;
        }
        for (const char *name : bench::kGridClusters) {
            if (!wanted(name, argc, argv, 2))
                continue;
            const auto cluster = cluster::preset(name);
            if (!cluster) {
                std::fprintf(stderr, "%s\n", cluster.error().text().c_str());
                return 1;
            }
            grid.row(model, *imported, *cluster);
        }
    }
    grid.printRatios();
}
