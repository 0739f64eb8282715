// SPDX-License-Identifier: Apache-2.0
// Plans that train by ADMM, run on ranks: against the specification in double precision, over numbers of ranks, bytes
// and memory.
#include "engine/admm/training_graph.h"
#include "engine/compile/compile.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/validate.h"
#include "engine/admm/updates.h"
#include "executor/runtime/admm_case.h"
#include "tests/engine/admm/synchronous.h"

#include <QTest>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace planloom;
using namespace planloom::test;

namespace {

constexpr std::int64_t kIterations = 5;

/// The same model, which slices the last step off all states, so that its layer is not unfolded.
plan::Subject slicedSubject()
{
    using Numbers = std::vector<std::int64_t>;
    const graph::Graph whole = *graph::rnnClassifier(kModel);
    graph::GraphBuilder b("sliced");
    const auto copy = [&](const char *name) { return b.copy(whole.tensor(whole.find(name))); };
    const auto states = b.addMany("RNN", {copy("x"), copy("rnn.W"), copy("rnn.R"), copy("rnn.B")}, 2,
                                  {{"hidden_size", kModel.hidden}, {"layout", std::int64_t{1}}}, "rnn");
    const TensorId last = b.add("Slice", {states[0]},
                                {{"starts", Numbers{kModel.steps - 1}},
                                 {"ends", Numbers{kModel.steps}},
                                 {"axes", Numbers{1}},
                                 {"steps", Numbers{1}}});
    const TensorId rows = b.add("Squeeze", {last}, {{"axes", Numbers{1, 2}}});
    const TensorId logits =
        b.add("Gemm", {rows, copy("head.weight"), copy("head.bias")}, {{"transB", std::int64_t{1}}}, "logits");
    const TensorId loss = b.add("SoftmaxCrossEntropyLoss", {logits, copy("labels")}, {}, "loss");
    b.output(loss);
    b.loss(loss);
    return plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(b).build()), cpus(2), nullptr, "");
}

Outcome trained(const plan::Plan &plan, const plan::Subject &subject)
{
    const Waves data;
    const auto program = compile::compilePlan(plan, subject);
    if (!program) {
        Outcome none;
        none.problem = program.error().text();
        return none;
    }
    data::SampleOrder order(kSamples, 1, 0);
    order.repeatFirstEpoch();
    Training how;
    how.steps = kIterations;
    return train(*program, subject, plan.optimizer, {&data, *data::needsOf(*subject.graph), order}, how);
}

/// What an iteration leaves, in double precision.
struct Left {
    std::vector<double> lagrangians;            ///< before the duals' step of each
    std::vector<std::vector<double>> residuals; ///< squared, of each: inputs, states, outputs
};

std::vector<double> squaresOf(const admm::Residuals &residuals)
{
    std::vector<double> squares(residuals.input);
    squares.insert(squares.end(), residuals.hidden.begin(), residuals.hidden.end());
    squares.push_back(residuals.output);
    for (double &norm : squares)
        norm *= norm;
    return squares;
}

/// Mean losses before each iteration, in double precision.
std::vector<double> specified(const graph::Graph &model, const admm::Settings &settings, Left *left = nullptr)
{
    auto training = admm::Training::of(settings, firstParameters(model), allSamples(), 1);
    std::vector<double> losses;
    for (std::int64_t i = 0; i < kIterations; ++i) {
        losses.push_back(admm::gradientsOf(training->parameters, allSamples(), 0).objective
                         / static_cast<double>(kSamples));
        double before = 0;
        const auto done = admm::iterate(*training, [&](const std::string &name) {
            before = name == "duals" ? before : admm::lagrangian(*training);
        });
        Q_ASSERT(static_cast<bool>(done));
        if (left != nullptr) {
            left->lagrangians.push_back(before);
            left->residuals.push_back(squaresOf(admm::residualsOf(*training)));
        }
    }
    return losses;
}

/// Empty if both are alike to the rounding of float32.
QString apart(const std::vector<double> &got, const std::vector<double> &wanted)
{
    if (got.size() != wanted.size())
        return QStringLiteral("%1 values, not %2").arg(got.size()).arg(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        if (!(std::fabs(got[i] - wanted[i]) <= 2e-5 * std::max(1.0, std::fabs(wanted[i]))))
            return QStringLiteral("%1: %2 against %3").arg(i).arg(got[i]).arg(wanted[i]);
    return {};
}

/// Mean losses of the shard at hand before each iteration, in double precision.
std::vector<double> specifiedShards(const graph::Graph &model, const admm::Settings &settings)
{
    const std::int64_t size = kSamples / settings.shards;
    const admm::Samples all = allSamples();
    data::SampleOrder order(kSamples, 1, 0);
    order.repeatFirstEpoch();
    const auto method = *admm::Method::of(settings, all.steps());
    admm::Parameters parameters = firstParameters(model);
    std::vector<admm::Worker> shards;
    for (int shard = 0; shard < settings.shards; ++shard) {
        admm::Samples samples{std::vector<admm::Matrix>(all.x.size(), admm::Matrix(kModel.inputs, size)), {}};
        for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t from = order.sampleIndex(shard, size, i);
            samples.labels.push_back(all.labels[static_cast<std::size_t>(from)]);
            for (std::size_t t = 0; t < all.x.size(); ++t)
                samples.x[t].col(i) = all.x[t].col(from);
        }
        shards.emplace_back(std::move(samples), parameters);
    }
    std::map<int, admm::Sums> in;
    std::map<int, admm::Sums> out;
    const auto total = [](const std::map<int, admm::Sums> &sums) {
        admm::Sums sum = sums.begin()->second;
        for (auto each = std::next(sums.begin()); each != sums.end(); ++each)
            sum += each->second;
        return sum;
    };
    std::vector<double> losses;
    for (int step = 0; step < kIterations; ++step) {
        const int shard = step % settings.shards;
        admm::Worker &worker = shards[static_cast<std::size_t>(shard)];
        losses.push_back(admm::gradientsOf(parameters, worker.samples, 0).objective / static_cast<double>(size));
        const auto solveOut = [&] {
            out.insert_or_assign(shard, admm::sumsOut(worker, method));
            admm::unpackOut(*admm::solve(total(out), settings, admm::packedOut(parameters)), parameters);
        };
        admm::restart(worker, parameters);
        admm::updateOutput(worker, parameters, method);
        solveOut();
        bool good = admm::sweepBackward(worker, parameters, method).ok();
        in.insert_or_assign(shard, admm::sumsIn(worker, method));
        admm::unpackIn(*admm::solve(total(in), settings, admm::packedIn(parameters)), parameters);
        good = good && admm::sweepForward(worker, parameters, method).ok();
        solveOut();
        admm::updateOutput(worker, parameters, method);
        admm::updateDuals(worker, parameters, method);
        Q_ASSERT(good);
    }
    return losses;
}

} // namespace

class TestAdmmTraining : public QObject {
    Q_OBJECT

private slots:
    void follows_data()
    {
        QTest::addColumn<int>("workers");
        QTest::addColumn<bool>("lastDuals");
        QTest::addColumn<bool>("split");
        QTest::addColumn<admm::Subproblems>("subproblems");
        using admm::Subproblems;
        for (const int workers : {1, 2, 4})
            QTest::addRow("%d", workers) << workers << false << false << Subproblems::Exact;
        QTest::newRow("duals of the last step, split order") << 2 << true << true << Subproblems::Exact;
        QTest::newRow("linearised, 1") << 1 << false << false << Subproblems::Linearised;
        QTest::newRow("linearised, 2") << 2 << true << false << Subproblems::Linearised;
        QTest::newRow("as released") << 2 << false << false << Subproblems::Released;
    }

    /// Losses are those of the specification, memory is as predicted, bytes are those of the three sums and one number.
    void follows()
    {
        QFETCH(int, workers);
        QFETCH(bool, lastDuals);
        QFETCH(bool, split);
        QFETCH(admm::Subproblems, subproblems);
        const bool linearised = subproblems != admm::Subproblems::Exact;
        admm::Settings settings;
        settings.subproblems = subproblems;
        settings.duals = lastDuals ? admm::Duals::Last : admm::Duals::All;
        settings.order = split ? admm::Order::Split : admm::Order::Interleaved;
        const plan::Subject subject = subjectOf(workers);
        const plan::Plan plan = planFor(subject, static_cast<std::size_t>(workers), settings);
        const Outcome outcome = trained(plan, subject);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        Left left;
        const std::vector<double> wanted = specified(*subject.graph, settings, &left);
        QCOMPARE(apart(outcome.losses, wanted), QString());
        QCOMPARE(apart(outcome.lagrangians, left.lagrangians), QString());
        // Of all steps in time, whichever have duals: nothing looks converged that is not.
        const std::size_t constraints = admm::residualNames(*subject.graph, settings).size();
        QCOMPARE(constraints, std::size_t(2 * kModel.steps + 1));
        QCOMPARE(outcome.residuals.size(), left.residuals.size());
        for (std::size_t step = 0; step < left.residuals.size(); ++step) {
            const std::vector<double> &squares = left.residuals[step];
            QCOMPARE(outcome.residuals[step].size(), constraints);
            for (std::size_t i = 0; i < constraints; ++i) {
                const auto found = static_cast<double>(outcome.residuals[step][i]);
                QVERIFY2(std::fabs(found - squares[i]) <= 1e-3 * squares[i] + 1e-7,
                         qPrintable(
                             QStringLiteral("%1, %2: %3 against %4").arg(step).arg(i).arg(found).arg(squares[i])));
            }
            const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
            QVERIFY(std::fabs(outcome.primalResiduals[step] - norm) <= 1e-3 * norm);
        }
        if (subproblems != admm::Subproblems::Released)
            QVERIFY(wanted.back() < (linearised ? 1 : 0.9) * wanted.front());
        const auto program = compile::compilePlan(plan, subject);
        for (std::size_t rank = 0; rank < outcome.peaks.size(); ++rank)
            QCOMPARE(outcome.peaks[rank], program->ranks[rank].arenaBytes);
        // 9 columns in and 6 out, 5 and 4 rows, and the residuals.
        const std::int64_t residuals = 2 * kModel.steps + 2; // and the Lagrangian
        const std::int64_t kSums = 45 + 5 * 9 + 2 * (21 + 4 * 6) + residuals;
        // Linearised: c, v, b, w and u, each with a norm, twice.
        const std::int64_t kSteps = 2 * (5 + 21 + 6 + 26 + 16) + residuals;
        const std::int64_t numbers = linearised ? kSteps : kSums;
        const std::int64_t sent =
            std::accumulate(outcome.collectiveBytes.begin(), outcome.collectiveBytes.end(), std::int64_t{0});
        QCOMPARE(sent, kIterations * 2 * (workers - 1) * 4 * numbers);
    }

    void rangesOfStepsGiveTheSame_data()
    {
        QTest::addColumn<int>("workers");
        QTest::addColumn<int>("ranges");
        QTest::newRow("2 ranges") << 1 << 2;
        QTest::newRow("4 ranges") << 1 << 4;
        QTest::newRow("2 workers of 2 ranges") << 2 << 2;
    }

    /// As one rank does, and as the specification: to rounding. What passes a border between ranges is counted to the
    /// byte, beside the sums.
    void rangesOfStepsGiveTheSame()
    {
        QFETCH(int, workers);
        QFETCH(int, ranges);
        admm::Settings settings;
        settings.order = admm::Order::Split;
        const plan::Subject subject = subjectOf(workers * ranges);
        const Outcome one = trained(planFor(subject, 1, settings), subject);
        settings.timeRanges = ranges;
        const plan::Plan plan = planFor(subject, static_cast<std::size_t>(workers), settings);
        const Outcome outcome = trained(plan, subject);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        Left left;
        const std::vector<double> wanted = specified(*subject.graph, settings, &left);
        QCOMPARE(apart(outcome.losses, wanted), QString());
        QCOMPARE(apart(outcome.lagrangians, left.lagrangians), QString());
        QCOMPARE(apart(outcome.losses, one.losses), QString());
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY2(program, program ? "" : program.error().text().c_str());
        std::int64_t states = 0;
        std::set<std::string> names;
        for (std::size_t rank = 0; rank < outcome.peaks.size(); ++rank)
            QCOMPARE(outcome.peaks[rank], program->ranks[rank].arenaBytes);
        for (const program::Body &body : program->bodies)
            for (const program::PersistentTensor &held : body.persistent)
                if (held.ofSamples && held.saves) {
                    states += held.count;
                    names.insert(held.name);
                }
        QCOMPARE(states, kSamples * (2 * kModel.steps * kModel.hidden + kModel.classes));
        QCOMPARE(names.size(), std::size_t(2 * kModel.steps + 1));
        constexpr std::int64_t kSums = 45 + 5 * 9 + 2 * (21 + 4 * 6) + 2; // the residual and the Lagrangian
        const std::int64_t sums = 2 * (ranges - 1) * workers + 2 * (workers - 1) * ranges;
        const std::int64_t border = 4 * kModel.hidden * kSamples * (ranges - 1);
        const auto sent =
            std::accumulate(outcome.collectiveBytes.begin(), outcome.collectiveBytes.end(), std::int64_t{0});
        QCOMPARE(sent, kIterations * 4 * (sums * kSums + border));
        std::int64_t predicted = 0;
        for (const program::Task &task : program->tasks)
            predicted += task.as<program::Boxing>() != nullptr ? task.bytes() : 0;
        QCOMPARE(sent, kIterations * predicted);
    }

    void shardsKeepTheirOwn_data()
    {
        QTest::addColumn<int>("workers");
        QTest::newRow("1") << 1;
        QTest::newRow("2") << 2;
    }

    /// Each shard comes back to its own duals, beside the others' last sums.
    void shardsKeepTheirOwn()
    {
        QFETCH(int, workers);
        admm::Settings settings;
        settings.shards = 2;
        const plan::Subject subject = subjectOf(workers);
        plan::Plan plan = planFor(subject, static_cast<std::size_t>(workers), settings);
        plan.globalBatch = kSamples / 2;
        const Outcome outcome = trained(plan, subject);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        const std::vector<double> wanted = specifiedShards(*subject.graph, settings);
        QCOMPARE(outcome.losses.size(), wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
            QVERIFY2(std::fabs(outcome.losses[i] - wanted[i]) < 2e-5,
                     qPrintable(QStringLiteral("%1: %2 against %3").arg(i).arg(outcome.losses[i]).arg(wanted[i])));
        const auto program = compile::compilePlan(plan, subject);
        for (std::size_t rank = 0; rank < outcome.peaks.size(); ++rank)
            QCOMPARE(outcome.peaks[rank], program->ranks[rank].arenaBytes);
        std::int64_t states = 0;
        for (const program::Body &body : program->bodies)
            for (const program::PersistentTensor &held : body.persistent)
                states += held.ofSamples ? held.count : 0;
        QCOMPARE(states, kSamples * (2 * kModel.steps * kModel.hidden + kModel.classes));
    }

    void followsWhereStatesAreSliced()
    {
        const plan::Subject subject = slicedSubject();
        const Outcome outcome = trained(planFor(subject, 2), subject);
        QVERIFY2(outcome.problem.empty(), outcome.problem.c_str());
        const std::vector<double> wanted = specified(*subject.graph, {});
        QCOMPARE(outcome.losses.size(), wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
            QVERIFY(std::fabs(outcome.losses[i] - wanted[i]) < 2e-5);
    }

    /// Rows enough by their number, but inputs that are sines of one frequency, of which two make the third: that no
    /// sums have a Cholesky factor without a ridge is known at run time alone.
    void singularSums()
    {
        const plan::Subject subject = subjectOf(1);
        admm::Settings settings;
        settings.ridge = 0.01;
        const Outcome good = trained(planFor(subject, 1, settings), subject);
        QVERIFY2(good.problem.empty(), good.problem.c_str());
        settings.ridge = 0;
        const Outcome outcome = trained(planFor(subject, 1, settings), subject);
        QVERIFY2(outcome.problem.find("iteration 0 of ADMM has no solution: its sums over samples have no Cholesky "
                                      "factor")
                     != std::string::npos,
                 outcome.problem.c_str());
        QVERIFY2(outcome.problem.find("raise \"ridge\"") != std::string::npos, outcome.problem.c_str());
    }

    void statesOfSamples()
    {
        const plan::Subject subject = subjectOf(3);
        plan::Plan plan = planFor(subject, 3);
        plan.stages.front().replicaShares = {0.5, 0.25, 0.25};
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY2(program, program ? "" : program.error().text().c_str());
        std::int64_t states = 0;
        for (const program::Body &body : program->bodies)
            for (const program::PersistentTensor &held : body.persistent)
                if (held.ofSamples) {
                    states += held.count;
                    QCOMPARE(held.sizes.front(), kSamples);
                    QCOMPARE(held.region.front().front().end - held.region.front().front().begin,
                             body.slices.front().size);
                }
        QCOMPARE(states, kSamples * (2 * kModel.steps * kModel.hidden + kModel.classes));
    }

    void fileKeepsAll()
    {
        const plan::Subject subject = subjectOf(2);
        admm::Settings settings;
        settings.mu = 3;
        settings.duals = admm::Duals::Last;
        settings.tanhSteps = 2;
        settings.shards = 3;
        plan::Document document{planFor(subject, 2, settings), subject};
        document.plan.then = plan::Continuation{7, {}};
        document.plan.then->optimizer.learningRate = 0.25;
        const std::string text = plan::toJson(document);
        const auto read = plan::documentFromJson(text);
        QVERIFY2(read, read ? "" : read.error().text().c_str());
        QVERIFY(read->plan.admm == settings);
        QCOMPARE(read->plan.then->after, std::int64_t(7));
        QCOMPARE(read->plan.then->optimizer.learningRate, 0.25);
        QCOMPARE(plan::toJson(*read), text);
        QVERIFY(text.find("\"optimizer\"") > text.find("\"then\""));
    }

    void refuses_data()
    {
        using Change = std::function<void(plan::Plan &)>;
        QTest::addColumn<Change>("change");
        QTest::addColumn<QString>("message");
        const auto row = [](const char *name, Change change, const char *message) {
            QTest::newRow(name) << std::move(change) << message;
        };
        row(
            "micro-batches", [](plan::Plan &plan) { plan.microBatches = 2; }, "all samples at once");
        row(
            "kept variables", [](plan::Plan &plan) { plan.admm->restart = false; }, "leave restart at true");
        row(
            "penalty", [](plan::Plan &plan) { plan.admm->mu = -1; }, "mu is -1");
        row(
            "vanishing penalties", [](plan::Plan &plan) { plan.admm->gamma = 1e-200; }, "choose a gamma of at least");
        row(
            "no factor",
            [](plan::Plan &plan) {
                plan.admm->ridge = 0;
                plan.globalBatch = 4;
            },
            "have no Cholesky factor");
        row(
            "an optimizer", [](plan::Plan &plan) { plan.optimizer = {}; }, "leave \"optimizer\" out");
        row(
            "an exchange", [](plan::Plan &plan) { plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging; },
            "by all-reduce");
        row(
            "ranges in the other order",
            [](plan::Plan &plan) {
                plan.admm->timeRanges = 2;
                plan.stages.front().mesh = {1, 2};
                plan.stages.front().replicaShares.clear();
            },
            "need order \"split\"");
        row(
            "ranges that do not divide",
            [](plan::Plan &plan) {
                plan.admm->order = admm::Order::Split;
                plan.admm->timeRanges = 2;
            },
            "make them equal");
        row(
            "shards of a server's workers",
            [](plan::Plan &plan) {
                plan.admm->shards = 2;
                plan.admm->parallel = admm::Parallel::Asynchronous;
            },
            "shards of samples need");
        row(
            "gradients behind versions",
            [](plan::Plan &plan) {
                plan.admm->parallel = admm::Parallel::Asynchronous;
                plan.then = plan::Continuation{5, {}};
            },
            "behind synchronous iterations");
        row(
            "sharded states", [](plan::Plan &plan) { plan.stages.front().zero = 1; }, "without ZeRO");
        row(
            "bfloat16", [](plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; }, "needs float32");
        row(
            "rule without training", [](plan::Plan &plan) { plan.admm.reset(); }, "choose an optimizer");
    }

    void refuses()
    {
        using Change = std::function<void(plan::Plan &)>;
        QFETCH(Change, change);
        QFETCH(QString, message);
        const plan::Subject subject = subjectOf(2);
        plan::Plan plan = planFor(subject, 2);
        change(plan);
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY(!program);
        QVERIFY2(QString::fromStdString(program.error().text()).contains(message), program.error().text().c_str());
    }

    void refusesModels()
    {
        graph::LstmConfig small;
        small.embedding = small.hidden = 4;
        small.vocabulary = 9;
        small.context = 3;
        const plan::Subject subject =
            plan::makeSubject(std::make_shared<const graph::Graph>(*graph::lstmLanguageModel(small)), cpus(1), nullptr,
                              "");
        const auto program = compile::compilePlan(planFor(subject, 1), subject);
        QVERIFY(!program);
        QVERIFY(program.error().text().find("does not fit training by ADMM") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestAdmmTraining)
#include "tst_admm_training.moc"
