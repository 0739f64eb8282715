// SPDX-License-Identifier: Apache-2.0
// The search of placements, against jobs whose placements are all known.
#include "engine/gnn/random.h"
#include "planners/gnn/exhaustive.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/initial.h"
#include "planners/gnn/search.h"
#include "tests/engine/gnn/gnn_cases.h"
#include "tests/stopped_after.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <map>

using namespace planloom;
using namespace planloom::planners::gnn;
using namespace planloom::testing;
using planloom::gnn::RoleKind;

namespace {

const std::vector<std::int32_t> kHomes{0, 1};
const std::vector<std::int32_t> kSwappedHomes{1, 0};
constexpr std::int64_t kAll = 100000;

/// Seconds are printed with six decimals.
bool closeTo(double a, double b, double rounding = 5.1e-7) { return std::abs(a - b) <= rounding; }
constexpr double kNineDecimals = 5.1e-10;

double secondsOf(const Job &job, const Placement &machineOf, TransferPolicy policy = TransferPolicy::Degree)
{
    return Evaluation(job, policy).seconds(machineOf);
}

Placement initialOf(const Job &job)
{
    NoProgress progress;
    auto found = initialPlacement(job, progress);
    return found ? found->machineOf : Placement();
}

/// Calls @p visit with each proposal that is possible in a placement, and its probability.
template <class Visit>
void eachProposal(const Job &job, const Placement &machineOf, const Visit &visit)
{
    const std::vector<std::int32_t> movable = movableRoles(job);
    const auto roles = static_cast<double>(movable.size());
    for (const bool swap : {false, true}) {
        const double others = swap ? roles - 1 : static_cast<double>(job.machines.size()) - 1;
        for (double x = 0; x < roles; ++x) {
            for (double y = 0; y < others; ++y)
                visit(proposalOf(job, movable, machineOf, swap ? 0.75 : 0.25, (x + 0.5) / roles, (y + 0.5) / others),
                      0.5 / roles / others);
        }
    }
}

/// The Metropolis chain on all feasible placements.
struct Chain {
    std::vector<Placement> states;
    std::vector<double> seconds;
    std::vector<double> weight;            ///< stationary distribution
    std::vector<std::vector<double>> flow; ///< probability of going from one to the other

    Chain(const Job &job, double beta)
    {
        Evaluation evaluation(job, TransferPolicy::Degree);
        std::map<Placement, std::size_t> number;
        eachFeasible(job, [&](const Placement &machineOf) {
            number[machineOf] = states.size();
            states.push_back(machineOf);
            seconds.push_back(evaluation.seconds(machineOf));
            return true;
        });
        double sum = 0;
        for (const double time : seconds)
            sum += std::exp(-beta * time);
        for (const double time : seconds)
            weight.push_back(std::exp(-beta * time) / sum);
        flow.assign(states.size(), std::vector<double>(states.size()));
        for (std::size_t from = 0; from < states.size(); ++from) {
            eachProposal(job, states[from], [&](const Proposal &proposal, double probability) {
                Placement next = states[from];
                Room room(job, next);
                if (!apply(proposal, next, room))
                    return;
                const std::size_t to = number.at(next);
                flow[from][to] += probability * acceptance(beta, seconds[from], seconds[to]);
            });
        }
    }
};

/// Placements that proposals lead to, directly or not.
std::size_t reachable(const Job &job, const Placement &start, bool swaps)
{
    std::map<Placement, bool> seen{{start, true}};
    std::vector<Placement> open{start};
    while (!open.empty()) {
        const Placement machineOf = open.back();
        open.pop_back();
        eachProposal(job, machineOf, [&](const Proposal &proposal, double) {
            Placement next = machineOf;
            Room room(job, next);
            if (proposal.swap && !swaps)
                return;
            if (apply(proposal, next, room) && seen.emplace(next, true).second)
                open.push_back(next);
        });
    }
    return seen.size();
}

QString textOf(const Job &job, const Accepted &accepted)
{
    const auto roleName = [&job](std::int32_t role) {
        return QString::fromStdString(job.roles[static_cast<std::size_t>(role)].name);
    };
    const Proposal &proposal = accepted.proposal;
    if (!proposal.swap)
        return QString("#%1 move %2 %3").arg(accepted.number).arg(roleName(proposal.role)).arg(proposal.machine);
    const auto [first, second] = std::minmax(proposal.role, proposal.other);
    return QString("#%1 swap %2 %3").arg(accepted.number).arg(roleName(first), roleName(second));
}

class StopAtOnce final : public Progress {
public:
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return true; }
};

} // namespace

class TestGnnPlacement : public QObject {
    Q_OBJECT

private slots:
    void allPlacements()
    {
        NoProgress progress;
        const auto found = exhaustivePlacement(tightJob(kHomes), TransferPolicy::Degree, kAll, progress);
        QVERIFY(found.ok());
        QCOMPARE(found->feasible, 120);
        QVERIFY(closeTo(found->bestSeconds, 39.902778));
        QVERIFY2(closeTo(found->medianSeconds, 47.046489), qPrintable(QString::number(found->medianSeconds, 'g', 10)));
        QVERIFY(closeTo(found->worstSeconds, 53.811111));
        QCOMPARE(found->tried, 120);
        QVERIFY(!found->cancelled());
        QCOMPARE(*countFeasible(tightJob(kHomes), kAll, progress), 120);
        StopAtOnce stop; // refused before a schedule is made
        QCOMPARE(*countFeasible(tightJob(kHomes), 119, progress), 120);
        const auto tooMany = exhaustivePlacement(tightJob(kHomes), TransferPolicy::Degree, 119, stop).error();
        QVERIFY2(tooMany.code == ErrorCode::Unsupported
                     && tooMany.message.find("more than 119 feasible placements of 7 roles on 3 machines")
                         != std::string::npos,
                 tooMany.message.c_str());
    }

    void initial_data()
    {
        QTest::addColumn<bool>("swapped");
        QTest::addColumn<double>("busiest");
        QTest::addColumn<QList<double>>("seconds"); // degree, max-min, iteration-first
        QTest::newRow("homes 0, 1") << false << 3.125 << QList<double>{41.833333, 40.75, 37.25};
        QTest::newRow("homes 1, 0") << true << 4.25 << QList<double>{43.5, 43.375, 38.25};
    }

    void initial()
    {
        QFETCH(bool, swapped);
        QFETCH(double, busiest);
        QFETCH(QList<double>, seconds);
        const Job job = tightJob(swapped ? kSwappedHomes : kHomes);
        NoProgress progress;
        const auto found = initialPlacement(job, progress);
        QVERIFY(found.ok());
        QCOMPARE(found->machineOf, placed(job, {0, 0, 1, 2, 0, 1, 2}));
        QVERIFY(closeTo(found->busiestPort, busiest, 1e-12));
        QVERIFY(closeTo(secondsOf(job, found->machineOf), seconds[0]));
        QVERIFY(closeTo(secondsOf(job, found->machineOf, TransferPolicy::MaxMin), seconds[1]));
        QVERIFY(closeTo(secondsOf(job, found->machineOf, TransferPolicy::IterationFirst), seconds[2]));
        if (!swapped) {
            QVERIFY(closeTo(secondsOf(job, found->machineOf, TransferPolicy::Static), 67));
            const planloom::gnn::Bounds bounds = Evaluation(job, TransferPolicy::Degree).bounds(found->machineOf);
            QVERIFY(closeTo(bounds.criticalPath, 33.5));
            QVERIFY(closeTo(bounds.port, 18.75));
            QCOMPARE(bounds.sharing, 6);
        }
    }

    void bestOfSwappedHomes()
    {
        const Job job = tightJob(kSwappedHomes);
        NoProgress progress;
        const auto found = exhaustivePlacement(job, TransferPolicy::Degree, kAll, progress);
        QVERIFY(closeTo(found->bestSeconds, 39.902778));
        // Others of the same seconds may differ from it by rounding.
        QVERIFY(closeTo(secondsOf(job, placed(job, {2, 2, 0, 1, 0, 1, 0})), found->bestSeconds, 1e-9));
    }

    void acceptanceOfMetropolis()
    {
        QVERIFY(closeTo(acceptance(0.5, 1, 3), 0.367879441, kNineDecimals));
        QVERIFY(closeTo(acceptance(2, 1, 1.25), 0.606530660, kNineDecimals));
        QCOMPARE(acceptance(0.5, 2, 1), 1.0);
    }

    void unitsOfSeed1()
    {
        planloom::gnn::UnitStream units(1);
        for (const double expected : {0.566561575, 0.745781757, 0.971002754, 0.444359217})
            QVERIFY(closeTo(units.next(), expected, kNineDecimals));
    }

    void exploration()
    {
        const Job job = tightJob(kSwappedHomes);
        NoProgress progress;
        ExploreOptions options;
        options.beta = 0.5;
        options.proposals = 200;
        const Exploration found = explore(job, initialOf(job), options, progress);
        QVERIFY(closeTo(found.startSeconds, 43.5));
        QVERIFY(found.accepted.size() >= 4);
        QCOMPARE(textOf(job, found.accepted[0]), QString("#13 swap s1 p0"));
        QVERIFY(closeTo(found.accepted[0].seconds, 40.291667));
        QCOMPARE(textOf(job, found.accepted[1]), QString("#17 swap s0 s1"));
        QVERIFY(closeTo(found.accepted[1].seconds, 40.166667));
        QCOMPARE(found.accepted[2].number, 18);
        QVERIFY(closeTo(found.accepted[2].seconds, 40.291667));
        QCOMPARE(textOf(job, found.accepted[3]), QString("#28 swap s2 p0"));
        QVERIFY(closeTo(found.accepted[3].seconds, 42.854167));
        QCOMPARE(found.proposals, 200);
        QCOMPARE(static_cast<int>(found.accepted.size()), 27);
        QVERIFY(closeTo(found.seconds, 39.902778));
        QCOMPARE(found.bestAt, 139);
        QVERIFY(planloom::gnn::checkPlacement(job, found.machineOf).ok());
        QCOMPARE(secondsOf(job, found.machineOf), found.seconds);

        options.beta = 2;
        options.proposals = 400;
        const Exploration cold = explore(job, initialOf(job), options, progress);
        QCOMPARE(cold.bestAt, 30);
        QCOMPARE(static_cast<int>(cold.accepted.size()), 23);
        QVERIFY(closeTo(cold.seconds, 39.902778));

        options.beta = 0.5;
        options.seed = 2;
        QVERIFY(closeTo(explore(job, initialOf(job), options, progress).seconds, 40.0));
    }

    void stationaryDistribution()
    {
        const Job job = tightJob(kSwappedHomes);
        const Chain chain(job, 0.5);
        QCOMPARE(static_cast<int>(chain.states.size()), 120);
        double mean = 0;
        double best = 0;
        for (std::size_t i = 0; i < chain.states.size(); ++i) {
            mean += chain.weight[i] * chain.seconds[i];
            best = std::max(best, chain.weight[i]);
            for (std::size_t j = 0; j < i; ++j)
                QVERIFY(closeTo(chain.weight[i] * chain.flow[i][j], chain.weight[j] * chain.flow[j][i], 1e-18));
        }
        QVERIFY(closeTo(best, 0.055139007, kNineDecimals));
        QVERIFY(closeTo(mean, 41.737122590, kNineDecimals));
    }

    void movesAloneDoNotReachAll()
    {
        const Job job = tightJob(kSwappedHomes);
        const Placement best = placed(job, {2, 2, 0, 1, 0, 1, 0});
        QCOMPARE(reachable(job, best, false), std::size_t{60});
        QCOMPARE(reachable(job, best, true), std::size_t{120});
    }

    /// Never worse than the start, and as good as the best of all where all can be tried.
    void explorationAgainstAllPlacements()
    {
        NoProgress progress;
        planloom::gnn::UnitStream random(7);
        int optimal = 0;
        constexpr int kJobs = 20;
        for (int i = 0; i < kJobs; ++i) {
            Job job = tightJob(i % 2 == 0 ? kHomes : kSwappedHomes);
            for (double &bytes : job.volumes.features)
                bytes = 6 * random.next();
            const Placement start = initialOf(job);
            ExploreOptions options;
            options.proposals = 5000;
            options.beta = 20 / secondsOf(job, start);
            options.seed = static_cast<std::uint64_t>(i);
            const Exploration found = explore(job, start, options, progress);
            const auto best = exhaustivePlacement(job, TransferPolicy::Degree, kAll, progress);
            QVERIFY(found.seconds <= found.startSeconds);
            QVERIFY(found.seconds >= best->bestSeconds - 1e-9);
            optimal += closeTo(found.seconds, best->bestSeconds, 1e-9) ? 1 : 0;
        }
        QCOMPARE(optimal, kJobs);
    }

    void backtracking()
    {
        // The features draw the first trainer to machine 0, which alone can take the second.
        Job job;
        job.resources = {"cores"};
        job.machines = {machine(4, {6}), machine(4, {4})};
        for (const int store : {0, 1})
            addRole(job, RoleKind::GraphStore, {1}, -1, store);
        for (const int trainer : {0, 1})
            addRole(job, RoleKind::Sampler, {1}, trainer);
        addRole(job, RoleKind::Trainer, {1});
        addRole(job, RoleKind::Trainer, {4});
        job.volumes = planloom::gnn::Volumes(1, 2, 2);
        job.volumes.feature(0, 0, 0) = 9;
        QVERIFY(planloom::gnn::checkJob(job).ok());
        QCOMPARE(initialOf(job), placed(job, {1, 0, 1, 0}));
        job.roles[5].demand = {3}; // now both can stay
        QCOMPARE(initialOf(job), placed(job, {0, 1, 0, 0}));
    }

    /// Complete: finds a placement exactly where there is one.
    void findsWhatThereIs()
    {
        planloom::gnn::UnitStream random(3);
        NoProgress progress;
        int feasible = 0;
        int refused = 0;
        for (int i = 0; i < 200; ++i) {
            Job job = tightJob(kHomes);
            for (planloom::gnn::Machine &machine : job.machines)
                machine.capacity = {std::floor(random.next() * 3), 1 + std::floor(random.next() * 6)};
            for (std::size_t role = 3; role < job.roles.size(); ++role)
                job.roles[role].demand[1] = 1 + std::floor(random.next() * 2);
            bool any = false;
            eachFeasible(job, [&any](const Placement &) { return !(any = true); });
            const auto found = initialPlacement(job, progress);
            QCOMPARE(found.ok(), any);
            if (found) {
                ++feasible;
                QVERIFY(planloom::gnn::checkPlacement(job, found->machineOf).ok());
            } else {
                ++refused;
                QVERIFY(found.error().code == ErrorCode::Infeasible);
                QVERIFY2(found.error().message.find("cores") != std::string::npos
                             || found.error().message.find("trainer-slots") != std::string::npos,
                         found.error().message.c_str());
            }
        }
        QVERIFY(feasible > 10 && refused > 10);
    }

    void refusals_data()
    {
        QTest::addColumn<int>("what");
        QTest::addColumn<QString>("message");
        QTest::newRow("too large") << 0 << "trainer w1 needs 9 cores, and no machine has more than 3";
        QTest::newRow("too many") << 1 << "parameter-server p0 is one too many: the roles up to it need 7 cores";
        QTest::newRow("store") << 2 << "graph-store g2 needs 1 cores on machine m, which has 0 left";
        QTest::newRow("slots") << 3 << "trainer w1 is one too many: the roles up to it need 2 trainer-slots";
        // One machine has the slot and too few cores, another the cores.
        QTest::newRow("both")
            << 4 << "needs 1 trainer-slots and 3 cores, and beside the other roles no machine has all of that";
    }

    void refusals()
    {
        QFETCH(int, what);
        QFETCH(QString, message);
        Job job = tightJob(kHomes);
        switch (what) {
        case 0: job.roles[8].demand = {1, 9}; break;
        case 1: job.machines[1].capacity = {1, 1}; break;
        case 2: job.machines[2].capacity = {0, 0}; break;
        case 3: job.machines[1].capacity = {0, 4}; break;
        default:
            job.machines[2].capacity = {0, 8};
            job.roles[7].demand = job.roles[8].demand = {1, 3};
            break;
        }
        NoProgress progress;
        const auto found = initialPlacement(job, progress);
        QVERIFY(!found.ok() && found.error().code == ErrorCode::Infeasible);
        QVERIFY2(found.error().message.find(message.toStdString()) != std::string::npos, found.error().message.c_str());
    }

    void colocated()
    {
        Job job = tightJob(kHomes);
        QVERIFY(!colocatedPlacement(job)); // machine 1 has too few cores for a store, two samplers and a trainer
        job.machines[0].capacity = {1, 5};
        job.machines[1].capacity = {1, 4};
        const auto found = colocatedPlacement(job);
        QVERIFY(found.has_value());
        QCOMPARE(*found, placed(job, {0, 0, 1, 1, 0, 1, 0}));
    }

    void stopping()
    {
        const Job job = tightJob(kHomes);
        StopAtOnce stop;
        const Exploration found = explore(job, initialOf(job), {}, stop);
        QVERIFY(found.cancelled);
        QCOMPARE(found.seconds, found.startSeconds);
        QVERIFY(exhaustivePlacement(job, TransferPolicy::Degree, kAll, stop).error().code == ErrorCode::Cancelled);
    }

    /// The best of those that were tried, and never worse than the first placement.
    void stoppingAmongAll()
    {
        const Job job = tightJob(kHomes);
        for (const int tries : {1, 40}) {
            StoppedAfter later(tries); // 120 placements ask once each, and counting them does not
            const auto some = exhaustivePlacement(job, TransferPolicy::Degree, kAll, later);
            QVERIFY(some && some->cancelled());
            QCOMPARE(some->tried, tries);
            QCOMPARE(some->feasible, 120);
            QVERIFY(closeTo(some->bestSeconds, secondsOf(job, some->best), 1e-12));
            QVERIFY(some->bestSeconds <= some->medianSeconds && some->medianSeconds <= some->worstSeconds);
        }
        const double initial = secondsOf(job, initialOf(job));
        SearchOptions options;
        options.kind = SearchKind::Exhaustive;
        class Stops final : public Progress {
        public:
            void report(double fraction, std::string_view) override { m_stopped = m_stopped || fraction > 0.02; }
            [[nodiscard]] bool stopped() const override { return m_stopped; }

        private:
            bool m_stopped = false;
        } third;
        const auto found = searchPlacement(job, options, third);
        QVERIFY(found && !found->complete());
        QCOMPARE(found->all->tried, 3);
        QVERIFY(found->seconds <= initial);
        QVERIFY(!found->colocatedSeconds || found->seconds <= *found->colocatedSeconds);
        QCOMPARE(found->seconds, secondsOf(job, found->machineOf));
    }

    /// Many beginnings of a placement, and no placement: the last role is on no machine.
    void stoppingWhereNothingFits()
    {
        Job job = tightJob(kHomes);
        for (planloom::gnn::Machine &machine : job.machines)
            machine.capacity = {9, 99};
        job.roles.back().demand = {99, 0};
        class StopLater final : public Progress {
        public:
            void report(double, std::string_view) override {}
            [[nodiscard]] bool stopped() const override { return ++asked > 0; }
            mutable int asked = 0;
        } stop;
        for (int sampler = 0; sampler < 5; ++sampler) { // 3^11 beginnings
            job.roles.insert(job.roles.begin() + 3, job.roles[3]);
            job.roles[3].demand = {0, 0};
        }
        job.volumes = planloom::gnn::Volumes(1, 3, 9);
        QVERIFY(planloom::gnn::checkJob(job).ok());
        QVERIFY(exhaustivePlacement(job, TransferPolicy::Degree, kAll, stop).error().code == ErrorCode::Cancelled);
        QCOMPARE(stop.asked, 1);
    }

    /// Ranking machines for a role counts as no try: 40 machines, each with room for all roles.
    void manyMachinesNeedFewTries()
    {
        Job job = tightJob(kHomes);
        job.machines.assign(40, machine(4, {1, 9}));
        NoProgress progress;
        const auto found = initialPlacement(job, progress, 20);
        QVERIFY2(found, found ? "" : found.error().text().c_str());
        QCOMPARE(found->tries, 7); // two trainers with two samplers each, a server
        const auto tooFew = initialPlacement(job, progress, 5);
        QVERIFY(!tooFew && tooFew.error().code == ErrorCode::Infeasible);
        job.resources.clear();
        for (planloom::gnn::Machine &machine : job.machines)
            machine.capacity.clear();
        for (planloom::gnn::Role &role : job.roles)
            role.demand.clear();
        QVERIFY(initialPlacement(job, progress).ok());
        const auto freely = initialPlacement(job, progress, 5); // no role lacks anything
        QVERIFY(!freely && freely.error().code == ErrorCode::Infeasible);
        QVERIFY2(freely.error().message.find("6 tries") != std::string::npos, freely.error().message.c_str());
    }

    void oneMachineIsOptimalAtOnce()
    {
        Job job = tightJob(kHomes);
        job.machines = {machine(4, {9, 99})};
        for (planloom::gnn::Role &role : job.roles) {
            if (role.kind == RoleKind::GraphStore)
                role.machine = 0;
        }
        NoProgress progress;
        const Exploration found = explore(job, initialOf(job), {}, progress);
        QVERIFY(found.optimal);
        QCOMPARE(found.proposals, 0);
    }
};

QTEST_GUILESS_MAIN(TestGnnPlacement)
#include "tst_gnn_placement.moc"
