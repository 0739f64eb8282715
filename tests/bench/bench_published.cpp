// SPDX-License-Identifier: Apache-2.0
// Published training runs, predicted on the way that `planloom plan` goes: seconds of an iteration and memory of a
// device, the error of each row and group, on even and on odd rows, and whether layouts of one model are ranked as they
// were measured. Rows that plans cannot express are listed with what is missing. Arguments: [WORD]: only runs whose
// name contains it; [NAME=VALUE]...: a constant instead of those of all frameworks and machines. Without arguments also
// what other constants would make of the errors.
#include "tests/bench/published_errors.h"

#include <cmath>
#include <cstdio>
#include <set>

namespace {

using namespace planloom;
using bench::PublishedRun;

using Outcome = bench::PublishedOutcome;

/// 1 for the least; equal values share the mean of their ranks.
std::vector<double> ranksOf(const std::vector<double> &values)
{
    std::vector<double> ranks;
    for (const double value : values) {
        const auto below = std::count_if(values.begin(), values.end(), [&](double other) { return other < value; });
        const auto equal = std::count(values.begin(), values.end(), value);
        ranks.push_back(static_cast<double>(below) + 0.5 * static_cast<double>(equal + 1));
    }
    return ranks;
}

/// Pearson's coefficient of the ranks (Spearman).
double rankCorrelation(const std::vector<double> &a, const std::vector<double> &b)
{
    const std::vector<double> x = ranksOf(a);
    const std::vector<double> y = ranksOf(b);
    const double mean = 0.5 * static_cast<double>(x.size() + 1);
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 1;
}

void printRanks(const std::vector<Outcome> &outcomes)
{
    std::map<std::string, std::vector<Outcome>> models;
    for (const Outcome &outcome : outcomes)
        models[outcome.run->model()].push_back(outcome);
    std::printf("\nLayouts of one model, three or more of them\n\n| %-56s | layouts | correlation | measured best |\n"
                "|---|---|---|---|\n",
                "model");
    for (const auto &[name, layouts] : models) {
        if (layouts.size() < 3)
            continue;
        std::vector<double> predicted;
        std::vector<double> measured;
        for (const Outcome &layout : layouts) {
            predicted.push_back(layout.seconds);
            measured.push_back(layout.measured());
        }
        const auto best = std::min_element(measured.begin(), measured.end()) - measured.begin();
        std::printf("| %-56s | %7zu | %11.2f | is ours no. %.0f |\n", name.c_str(), layouts.size(),
                    rankCorrelation(predicted, measured), ranksOf(predicted)[static_cast<std::size_t>(best)]);
    }
}

void printSummary(const std::vector<Outcome> &outcomes)
{
    std::printf("\n| %-10s | runs | mean size | mean | median size | nine of ten within | worst |\n"
                "|---|---|---|---|---|---|---|\n",
                "group");
    for (const auto &[name, members] : bench::publishedGroups(outcomes)) {
        if (members.empty())
            continue;
        const bench::PublishedErrors errors = bench::errorsOf(members);
        std::printf("| %-10s | %3zu | %5.1f %% | %+5.1f %% | %5.1f %% | %5.1f %% | %5.1f %% |\n", name.c_str(),
                    errors.runs, 100 * errors.meanSize, 100 * errors.mean, 100 * errors.medianSize,
                    100 * errors.ninthSize, 100 * errors.worst);
    }
}

void printConstants(const std::string &name, const bench::Constants &constants)
{
    if (constants.empty())
        return;
    std::printf("- %s:", name.c_str());
    for (const auto &[constant, value] : constants)
        std::printf(" %s %g", constant.c_str(), value);
    std::printf("\n");
}

void printFrameworks()
{
    std::printf("\nWhat frameworks and machines do beside plans\n\n");
    for (const cost::Framework &framework : cost::frameworks())
        printConstants(framework.name, framework.facts);
    for (const bench::PublishedMachines &machines : bench::allPublishedMachines())
        printConstants(machines.name, machines.extra);
    printConstants("instead", bench::publishedOverrides());
}

/// Figures that were fitted, not read from a framework's documents.
bool isFitted(const std::string &constant)
{
    static const std::set<std::string> kFitted{"attention_share", "kernel_launch_seconds", cost::kPartialGroups,
                                               "product_ramp",    "product_share",         "update_overhead_seconds"};
    return kFitted.contains(constant);
}

/// Mean sizes of errors.
struct Fit {
    double even = 0;
    double odd = 0;
};

/// Of the runs in @p rows, numbers of @p runs.
Fit fitOf(const std::vector<PublishedRun> &runs, const std::vector<std::size_t> &rows)
{
    double sums[2] = {0, 0};
    double counts[2] = {0, 0};
    for (const std::size_t row : rows)
        if (const auto outcome = bench::predictedOutcome(runs[row], row)) {
            sums[row % 2] += std::abs(outcome->error());
            counts[row % 2] += 1;
        }
    return {sums[0] / std::max(1.0, counts[0]), sums[1] / std::max(1.0, counts[1])};
}

/// Each fitted constant of @p owner, and a fifth less and a quarter more: what the runs in @p rows make of it.
void printFits(const std::string &owner, const bench::Constants &constants, const std::vector<PublishedRun> &runs,
               const std::vector<std::size_t> &rows)
{
    constexpr double kLess = 0.8;
    constexpr double kMore = 1.25;
    for (const auto &[name, value] : constants) {
        if (!isFitted(name) || rows.empty())
            continue;
        std::printf("| %-16s | %-30s |", owner.c_str(), name.c_str());
        for (const double factor : {kLess, 1.0, kMore}) {
            bench::publishedOverrides()[name] = value * factor;
            const Fit fit = fitOf(runs, rows);
            std::printf(" %8.3g: %4.1f, %4.1f %% |", value * factor, 100 * fit.even, 100 * fit.odd);
            bench::publishedOverrides().erase(name);
        }
        std::printf("\n");
        std::fflush(stdout);
    }
}

void printAllFits(const std::vector<PublishedRun> &runs)
{
    const auto rowsOf = [&runs](const char *column, const std::string &value) {
        std::vector<std::size_t> rows;
        for (std::size_t i = 0; i < runs.size(); ++i)
            if (runs[i].assumed(column) == value && bench::missingOf(runs[i]).empty())
                rows.push_back(i);
        return rows;
    };
    std::printf("\nConstants, fitted on even rows: mean size of errors on even and odd rows\n\n| %-16s | %-30s | a "
                "fifth less | as it is | "
                "a quarter more |\n|---|---|---|---|---|\n",
                "of", "constant");
    for (const cost::Framework &framework : cost::frameworks())
        for (const auto &[name, value] : framework.facts) {
            // Machines that have a value of their own keep it.
            std::vector<std::size_t> rows = rowsOf("framework", framework.name);
            std::erase_if(rows, [&](std::size_t row) {
                return bench::publishedMachines(runs[row].assumed("machines"))->extra.contains(name);
            });
            printFits(framework.name, {{name, value}}, runs, rows);
        }
    for (const bench::PublishedMachines &machines : bench::allPublishedMachines())
        printFits(machines.name, machines.extra, runs, rowsOf("machines", machines.name));
}

int run(const std::string &wanted)
{
    const auto runs = bench::readPublishedRuns(PLANLOOM_PUBLISHED_RUNS);
    if (!runs) {
        std::fprintf(stderr, "%s\n", runs.error().text().c_str());
        return 1;
    }
    std::vector<Outcome> outcomes;
    std::map<std::string, std::vector<std::string>> left;
    std::printf("| %-40s | %9s | %9s | %7s | memory |\n|---|---|---|---|---|\n", "run", "predicted", "measured",
                "error");
    for (std::size_t i = 0; i < runs->size(); ++i) {
        const PublishedRun &row = (*runs)[i];
        if (row.text("run").find(wanted) == std::string::npos)
            continue;
        if (const std::string missing = bench::missingOf(row); !missing.empty()) {
            left[missing].push_back(row.text("run"));
            continue;
        }
        const auto outcome = bench::predictedOutcome(row, i);
        if (!outcome) {
            left[outcome.error().message].push_back(row.text("run"));
            continue;
        }
        outcomes.push_back(*outcome);
        std::printf("| %-40s | %7.3f s | %7.3f s | %+5.1f %% | %.1f GiB%s%s |\n", row.text("run").c_str(),
                    outcome->seconds, outcome->measured(), 100 * outcome->error(), outcome->gib,
                    row.has("gib") ? fmt::format(", measured {}", row.text("gib")).c_str() : "",
                    outcome->fits ? "" : ", does not fit");
        std::fflush(stdout);
    }
    printSummary(outcomes);
    printFrameworks();
    printRanks(outcomes);
    std::printf("\nNot predicted\n\n");
    for (const auto &[missing, names] : left) {
        std::printf("- %s (%zu): ", missing.c_str(), names.size());
        for (std::size_t i = 0; i < names.size(); ++i)
            std::printf("%s%s", i > 0 ? ", " : "", names[i].c_str());
        std::printf("\n");
    }
    if (wanted.empty() && bench::publishedOverrides().empty())
        printAllFits(*runs);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    std::string wanted;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const std::size_t sign = argument.find('=');
        if (sign == std::string::npos)
            wanted = argument;
        else
            bench::publishedOverrides()[argument.substr(0, sign)] = std::atof(argument.c_str() + sign + 1);
    }
    return run(wanted);
}
