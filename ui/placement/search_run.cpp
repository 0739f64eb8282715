// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/search_run.h"

#include "planners/gnn/placed_plan.h"

#include <algorithm>

namespace planloom::ui {

namespace {

using planners::gnn::Proposal;

std::string textOfChange(const gnn::Job &job, const Proposal &change)
{
    const std::string &name = job.roles[static_cast<std::size_t>(change.role)].name;
    if (change.swap)
        return name + " and " + job.roles[static_cast<std::size_t>(change.other)].name + " change places";
    return name + " to " + job.machines[static_cast<std::size_t>(change.machine)].name;
}

/// Collects placements one change after the other.
class Walk {
public:
    Walk(const gnn::Job &job, SearchRun &run) : m_job(job), m_run(run) {}

    void from(gnn::Placement machineOf) { m_machineOf = std::move(machineOf); }
    void change(const Proposal &proposal)
    {
        planners::gnn::Room room(m_job, m_machineOf);
        planners::gnn::apply(proposal, m_machineOf, room);
    }
    void note(std::int64_t number, double seconds, std::string what)
    {
        const double before = m_run.points.empty() ? seconds : m_run.points.back().best;
        m_run.points.push_back({number, m_machineOf, seconds, std::min(before, seconds), std::move(what)});
    }
    [[nodiscard]] const gnn::Placement &machineOf() const { return m_machineOf; }

private:
    const gnn::Job &m_job;
    SearchRun &m_run;
    gnn::Placement m_machineOf;
};

} // namespace

Result<SearchRun> runSearch(const plan::Document &document, const planners::gnn::SearchOptions &options,
                            Progress &progress)
{
    gnn::Placement present;
    const auto made =
        planners::gnn::searchJobOf(document.plan, document.subject, planners::gnn::slotsOfPlan(document.plan), present);
    if (!made)
        return made.error();
    const gnn::Job &job = *made;
    const auto found = planners::gnn::searchPlacement(job, options, progress);
    if (!found)
        return found.error();
    planners::gnn::Evaluation evaluation(job, options.explore.policy);
    SearchRun run;
    Walk walk(job, run);
    walk.from(found->initial);
    walk.note(0, found->initialSeconds, "first placement");
    if (found->balanced) {
        const std::vector<Proposal> &changes = found->balanced->changes;
        constexpr std::size_t kLooks = 16;
        for (std::size_t i = 0; i < changes.size(); ++i) {
            walk.change(changes[i]);
            if (i + 1 == changes.size() || (i + 1) * kLooks / changes.size() > i * kLooks / changes.size())
                walk.note(0, evaluation.seconds(walk.machineOf()), "by load: " + textOfChange(job, changes[i]));
        }
    }
    if (found->exploration) {
        walk.from(found->explored);
        if (run.points.back().machineOf != found->explored)
            walk.note(0, found->exploration->startSeconds, "the best so far");
        for (const planners::gnn::Accepted &step : found->exploration->accepted) {
            walk.change(step.proposal);
            walk.note(step.number, step.seconds, textOfChange(job, step.proposal));
        }
        run.proposals = found->exploration->proposals;
    }
    if (found->all) {
        walk.from(found->all->best);
        walk.note(found->all->tried, found->all->bestSeconds,
                  found->all->cancelled() ? "the best of those tried" : "the best of all");
        run.proposals = found->all->tried;
    }
    run.best = found->machineOf;
    run.seconds = found->seconds;
    run.bound = evaluation.bounds(run.best).lower();
    run.complete = found->complete();
    const auto fastest = planners::gnn::fastestOf(*found, document.plan, document.subject);
    if (!fastest)
        return fastest.error();
    const auto sameAs = [&](const SearchPoint &point) { return point.machineOf == *fastest; };
    auto point = std::ranges::find_if(run.points, sameAs);
    if (point == run.points.end()) {
        walk.from(*fastest);
        walk.note(0, evaluation.seconds(*fastest), "the fastest in the simulator");
        point = run.points.end() - 1;
    }
    run.fastest = static_cast<std::size_t>(point - run.points.begin());
    return run;
}

} // namespace planloom::ui
