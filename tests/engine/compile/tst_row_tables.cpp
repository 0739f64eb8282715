// SPDX-License-Identifier: Apache-2.0
// Tables exchanged by rows (EmbRace) from plan to predicted time: what plans say and what is refused, which tasks a
// Program has, what memory they take.
#include "engine/compile/compile.h"
#include "engine/compile/layout.h"
#include "engine/cost/sparse_rows.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/validate_tables.h"
#include "engine/simulate/clock.h"
#include "engine/simulate/simulate.h"

#include <QTest>

#include <map>
#include <set>

using namespace planloom;
using plan::ExchangeScheduling;
using plan::TableStrategy;

namespace {

constexpr std::int64_t kVocabulary = 1000, kContext = 16, kHidden = 50;

/// A recurrent language model on @p devices machines of one device.
plan::Subject subject(int devices, bool tied = false, double bandwidth = 1e8)
{
    graph::LstmConfig config;
    config.layers = 1;
    config.embedding = config.hidden = kHidden;
    config.vocabulary = kVocabulary;
    config.context = kContext;
    config.tiedEmbeddings = tied;
    auto graph = std::make_shared<const graph::Graph>(*graph::lstmLanguageModel(config));
    cluster::RegularCluster spec;
    spec.name = "test";
    spec.nodes = devices;
    spec.type = *cluster::knownDeviceType("A100-80GB");
    spec.intraBandwidth = 1e11;
    spec.interPointToPoint = bandwidth;
    spec.interCollective = bandwidth;
    auto cluster = std::make_shared<const cluster::Cluster>(*cluster::regular(spec));
    return plan::makeSubject(graph, cluster, nullptr, "test");
}

plan::Plan byRows(const plan::Subject &subject, int replicas, ExchangeScheduling scheduling,
                  TableStrategy strategy = TableStrategy::AllToAll)
{
    plan::Plan plan;
    plan.globalBatch = 4 * replicas;
    plan.microBatches = 2;
    plan.optimizer.groups = {{"embedding.weight", 0, 1}};
    plan.exchange.policy = plan::ExchangePolicy::Sparse;
    plan.exchange.sparse = {scheduling, {{"embedding.weight", strategy, true}}};
    plan::Stage stage;
    stage.name = "s0";
    stage.lastLayer = subject.layers().size();
    for (int r = 0; r < replicas; ++r)
        stage.devices.emplace_back(r);
    plan.stages.push_back(stage);
    return plan;
}

program::Program compiled(const plan::Plan &plan, const plan::Subject &subject, bool bodies = false)
{
    auto program = compile::compilePlan(plan, subject, {.bodies = bodies, .fold = !bodies});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    return *std::move(program);
}

QStringList idsOn(const program::Program &program, const std::vector<TaskId> &tasks)
{
    QStringList ids;
    for (const TaskId task : tasks)
        ids << QString::fromStdString(idOf(program.task(task)));
    return ids;
}

} // namespace

class TestRowTables : public QObject {
    Q_OBJECT

private slots:
    void plansSayIt()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = byRows(about, 2, ExchangeScheduling::Horizontal);
        plan.exchange.sparse.tables.front().split = false;
        const std::string text = plan::textOf(plan.exchange);
        QCOMPARE(text, std::string("embrace,scheduling=horizontal,tables=embedding.weight:all-to-all:whole"));
        const auto read = plan::exchangeFromText(text);
        QVERIFY(read.ok());
        QCOMPARE(plan::textOf(*read), text);
        const auto two = plan::exchangeFromText("embrace,tables=a+b:all-gather");
        QVERIFY(two.ok());
        QCOMPARE(plan::textOf(*two), std::string("embrace,scheduling=2d,tables=a:all-to-all:split+b:all-gather:split"));
        const auto again = plan::documentFromJson(plan::toJson({plan, about}));
        QVERIFY2(again.ok(), again ? "" : again.error().text().c_str());
        QCOMPARE(plan::textOf(again->plan.exchange), text);
        for (const auto &[bad, reason] : std::initializer_list<std::pair<const char *, const char *>>{
                 {"embrace,order=2d", "no setting \"order\""},
                 {"embrace,scheduling=3d", "fifo, horizontal, 2d"},
                 {"embrace,tables=a:ring", "all-reduce, all-gather, all-to-all"},
                 {"embrace,tables=a:all-gather:half", "split or whole"},
                 {"embrace,tables=", "has no name"},
                 {"embrace,tables=a+", "has no name"},
                 {"embrace,delay=1", "add dense=dasgd"},
                 {"embrace,dense=gossip", "dense is \"gossip\"; give all-reduce or dasgd"},
                 {"embrace,dense=embrace", "give dense=dasgd"},
                 {"embrace,dense=dasgd,order=2d", "no setting \"order\""},
                 {"embrace,delay=5,dense=dasgd,tables=a", "give a delay from 0 to local_steps"},
                 {"dasgd,dense=dasgd", "no setting \"dense\""},
                 {"all-reduce,scheduling=2d", "leave it out"}}) {
            const auto refused = plan::exchangeFromText(bad);
            QVERIFY2(!refused && refused.error().message.find(reason) != std::string::npos,
                     refused ? bad : refused.error().message.c_str());
        }
    }

    /// Settings of averages may stand anywhere among those of tables.
    void plansSayHowOthersAreExchanged()
    {
        const plan::Subject about = subject(2);
        const auto exchange = plan::exchangeFromText(
            "embrace,delay=1,tables=embedding.weight,local_steps=3,dense=dasgd,merge=convex,warmup_steps=5");
        QVERIFY2(exchange.ok(), exchange ? "" : exchange.error().text().c_str());
        plan::Plan plan = byRows(about, 2, ExchangeScheduling::TwoDimensional);
        plan.exchange = *exchange;
        const std::string text = plan::textOf(plan.exchange);
        QCOMPARE(text,
                 std::string("embrace,dense=dasgd,local_steps=3,delay=1,local_weight=0.25,merge=convex,warmup_steps=5,"
                             "scheduling=2d,tables=embedding.weight:all-to-all:split"));
        QCOMPARE(plan::textOf(*plan::exchangeFromText(text)), text);
        const auto read = plan::documentFromJson(plan::toJson({plan, about}));
        QVERIFY2(read.ok(), read ? "" : read.error().text().c_str());
        QCOMPARE(plan::textOf(read->plan.exchange), text);
        QVERIFY(read->plan.exchange.averages() && read->plan.exchange.hasTables());
    }

    void whatCannotBeAveragedBesideTablesIsRefused()
    {
        const plan::Subject about = subject(4);
        const auto refused = [&](const char *reason, auto change) {
            plan::Plan plan = byRows(about, 2, ExchangeScheduling::TwoDimensional);
            plan.exchange.dense = plan::ExchangePolicy::DelayedAveraging;
            QVERIFY(plan::validate(plan, about).ok());
            change(plan);
            const Status valid = plan::validate(plan, about);
            QVERIFY2(!valid && valid.error().message.find(reason) != std::string::npos,
                     valid ? reason : valid.error().message.c_str());
        };
        refused("exchange dasgd needs ZeRO 0", [](plan::Plan &plan) { plan.stages[0].zero = 1; });
        refused("delay from 0 to local_steps", [](plan::Plan &plan) { plan.exchange.averaging.delay = 5; });
        refused("give dense=dasgd", [](plan::Plan &plan) { plan.exchange.dense = plan::ExchangePolicy::Sparse; });
        refused("has no setting \"dense\"",
                [](plan::Plan &plan) { plan.exchange.policy = plan::ExchangePolicy::DelayedAveraging; });
        refused("averages no parameter", [](plan::Plan &plan) {
            plan.exchange.groups = {{"*", plan::ExchangePolicy::AllReduce}};
        });
        refused("the same replicas in every stage", [&](plan::Plan &plan) {
            plan::Stage &first = plan.stages[0];
            first.lastLayer = 1;
            plan::Stage second = first;
            second.name = "s1";
            second.firstLayer = 1;
            second.lastLayer = about.layers().size();
            second.devices = {DeviceId(2)};
            plan.stages.push_back(second);
        });
    }

    /// Rows travel in each step, averages once in a round; a table that is summed up is not averaged either.
    void tasksOfARound()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = byRows(about, 2, ExchangeScheduling::TwoDimensional);
        plan.bucketBytes = 0;
        plan.exchange.dense = plan::ExchangePolicy::DelayedAveraging;
        plan.exchange.averaging = {4, 2, 0.25, plan::Merge::Corrected, 0};
        const auto periods = [&] {
            std::map<std::string, std::int64_t> of;
            const program::Program program = compiled(plan, about);
            for (const program::Task &task : program.tasks)
                of[idOf(task)] = task.cadence == 0 ? 1 : program.cadences[std::size_t(task.cadence - 1)].period;
            return of;
        };
        const auto byRow = periods();
        for (const char *rows : {"s0.AF.t0", "s0.AP.t0", "s0.AD.t0", "s0.O.t0p", "s0.O.t0d"})
            QCOMPARE(byRow.at(rows), std::int64_t{1});
        for (const char *averages : {"s0.SN.b1", "s0.AR.b1", "s0.M.b1"})
            QCOMPARE(byRow.at(averages), std::int64_t{4});
        QVERIFY(!byRow.contains("s0.AR.b0"));
        plan.exchange.sparse.tables.front().strategy = TableStrategy::AllReduce;
        const auto whole = periods();
        QCOMPARE(whole.at("s0.AR.b0") * whole.at("s0.AR.b1"), std::int64_t{4});
        QVERIFY(whole.contains("s0.M.b0") != whole.contains("s0.M.b1"));
    }

    void whatCannotBeExchangedByRowsIsRefused()
    {
        const plan::Subject about = subject(2);
        const auto refused = [&](const char *reason, auto change, const plan::Subject *of = nullptr) {
            plan::Plan plan = byRows(about, 2, ExchangeScheduling::TwoDimensional);
            change(plan);
            const Status valid = plan::validate(plan, of != nullptr ? *of : about);
            QVERIFY2(!valid && valid.error().message.find(reason) != std::string::npos,
                     valid ? reason : valid.error().message.c_str());
        };
        const plan::Subject tied = subject(2, true);
        refused(
            "is tied", [](plan::Plan &) {}, &tied);
        const auto twoStages = [](const plan::Subject &cut) {
            return [&cut](plan::Plan &plan) {
                plan::Stage &first = plan.stages[0];
                plan::Stage second = first;
                second.name = "s1";
                second.firstLayer = first.lastLayer = cut.layers().size() - 1;
                first.devices = {DeviceId(0), DeviceId(1)};
                second.devices = {DeviceId(2), DeviceId(3)};
                plan.stages.push_back(second);
            };
        };
        refused("clip_norm", [](plan::Plan &plan) { plan.optimizer.clipNorm = 1; });
        refused("weight decay 0.01", [](plan::Plan &plan) { plan.optimizer.groups.clear(); });
        refused("bf16", [](plan::Plan &plan) { plan.precision = plan::Precision::BFloat16; });
        refused("takes norms", [](plan::Plan &plan) { plan.optimizer.rule = *update::ConfiguredRule::named("lamb"); });
        refused("has one replica", [](plan::Plan &plan) { plan.stages[0].devices.pop_back(); });
        const plan::Subject four = subject(4), fourTied = subject(4, true);
        // Two stages read the table: the first looks rows up, the head is in the second.
        refused("is tied: ", twoStages(fourTied), &fourTied);
        {
            plan::Plan plan = byRows(four, 2, ExchangeScheduling::TwoDimensional);
            twoStages(four)(plan);
            const Status valid = plan::validate(plan, four); // the same cut of a table that the first alone reads
            QVERIFY2(valid.ok(), valid ? "" : valid.error().text().c_str());
        }
        const auto shards = [](plan::Plan &plan) {
            plan.stages[0].devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
            plan.stages[0].mesh = {2, 2};
        };
        refused("2 devices a replica", shards, &four);
        refused("no parameter of that name; of tables it has embedding.weight",
                [](plan::Plan &plan) { plan.exchange.sparse.tables[0].parameter = "embeding"; });
        refused("no table of rows", [](plan::Plan &plan) { plan.exchange.sparse.tables[0].parameter = "head.weight"; });
        refused("names no table", [](plan::Plan &plan) { plan.exchange.sparse.tables.clear(); });
        refused("twice",
                [](plan::Plan &plan) { plan.exchange.sparse.tables.push_back(plan.exchange.sparse.tables.front()); });
        refused("leave schedule.lane_policy out", [](plan::Plan &plan) { plan.schedule.lanePolicy = "fifo"; });
        refused("name them in exchange.tables", [](plan::Plan &plan) {
            plan.exchange.groups = {{"rank<2", plan::ExchangePolicy::Sparse}};
        });
        // What is summed up as a whole may be all of that.
        plan::Plan summed = byRows(tied, 2, ExchangeScheduling::Fifo, TableStrategy::AllReduce);
        summed.optimizer.clipNorm = 1;
        summed.optimizer.groups.clear();
        const Status valid = plan::validate(summed, tied);
        QVERIFY2(valid.ok(), valid ? "" : valid.error().text().c_str());
    }

    void tasks()
    {
        const plan::Subject about = subject(2);
        plan::Plan plan = byRows(about, 2, ExchangeScheduling::TwoDimensional);
        plan.bucketBytes = 0;
        const program::Program program = compiled(plan, about);
        QCOMPARE(idsOn(program, program.ranks[0].computeOrder()),
                 (QStringList{"s0.L.t0", "s0.F.m0", "s0.B.m0", "s0.F.m1", "s0.B.m1", "s0.O.t0d", "s0.G.t0", "s0.O",
                              "s0.O.t0p"}));
        const auto orders = simulate::laneOrders(program, RankId(1));
        QVERIFY(orders.ok());
        QCOMPARE(idsOn(program, (*orders)[static_cast<std::size_t>(program::Lane::Collective)]),
                 (QStringList{"s0.AF.t0", "s0.AD.t0", "s0.AR.b1", "s0.AP.t0"}));

        plan.exchange.sparse.scheduling = ExchangeScheduling::Fifo;
        const program::Program fifo = compiled(plan, about);
        QCOMPARE(idsOn(fifo, fifo.ranks[0].computeOrder()),
                 (QStringList{"s0.L.t0", "s0.F.m0", "s0.B.m0", "s0.F.m1", "s0.B.m1", "s0.G.t0", "s0.O", "s0.O.t0"}));
        const program::Program gathered =
            compiled(byRows(about, 2, ExchangeScheduling::Fifo, TableStrategy::AllGather), about);
        for (const program::Task &task : gathered.tasks)
            QVERIFY(idOf(task) != "s0.AF.t0" && idOf(task) != "s0.L.t0");
    }

    /// Columns are shared out; rows on their way have room for those of all ids, or of the table where that is smaller.
    void memory()
    {
        const plan::Subject about = subject(4);
        const auto persistent = [&](plan::Plan plan) { return compiled(plan, about, true).ranks[3].persistentBytes; };
        constexpr std::int64_t kFloat = 4, kReplicas = 4, kStates = 2; // of AdamW
        for (const std::int64_t samples : {4, 100}) {
            plan::Plan plan = byRows(about, kReplicas, ExchangeScheduling::Fifo);
            plan.globalBatch = kReplicas * samples;
            plan::Plan summed = plan;
            summed.exchange = {};
            summed.exchange.groups = {{"embedding.weight", plan::ExchangePolicy::AllReduce}};
            const std::int64_t window = std::min(kVocabulary, samples * kContext);
            const std::int64_t width = kHidden / kReplicas; // 13, 13, 12, 12 columns
            const auto block = [](std::int64_t rows, std::int64_t columns) {
                return compile::aligned(rows * columns * kFloat);
            };
            const auto bucket = [](std::int64_t elements) { return (elements + 31) / 32 * 32 * kFloat; };
            const std::int64_t updated = std::min(kVocabulary, kReplicas * window);
            const std::int64_t expected = (1 + kStates) * block(kVocabulary, width) // held
                + 2 * block(window, kHidden)                                        // window, own rows on their way
                + bucket(window * kHidden)                                          // the window's gradient
                + block(kReplicas * window, width)                                  // all replicas' rows
                + (2 + kStates) * block(updated, width);
            const std::int64_t dense = (2 + kStates) * bucket(kVocabulary * kHidden);
            QCOMPARE(persistent(plan) - expected, persistent(summed) - dense);
            plan.exchange.sparse.scheduling = ExchangeScheduling::TwoDimensional;
            QCOMPARE(persistent(plan) - expected - block(window, kHidden) - block(kReplicas * window, width),
                     persistent(summed) - dense);
        }
    }

    /// Rows by Zipf's law, to the owners of columns.
    void bytes()
    {
        const plan::Subject about = subject(4);
        const program::Program program = compiled(byRows(about, 4, ExchangeScheduling::TwoDimensional), about);
        const cost::ExpectedRows rows = cost::expectedRows(kVocabulary, 4 * kContext, 4);
        for (const program::Task &task : program.tasks) {
            const auto *exchange = task.as<program::RowExchange>();
            if (exchange == nullptr || task.rank.value != 3) // which holds 12 of 50 columns
                continue;
            const double expected = !exchange->gradients    ? 3 * rows.unique * 12
                : exchange->part == program::RowPart::Prior ? rows.prior * 38
                                                            : (rows.unique - rows.prior) * 38;
            QVERIFY(std::abs(static_cast<double>(exchange->bytes) - 4 * expected) < 1);
            QVERIFY(task.duration.value() > 0);
        }
    }

    /// Rows go to the owners of ranges of rows. The first range has the rows that are looked up most.
    void servedBytes()
    {
        const plan::Subject about = subject(4);
        const program::Program program =
            compiled(byRows(about, 4, ExchangeScheduling::TwoDimensional, TableStrategy::ParameterServer), about);
        const program::Table &table = program.tables.front();
        const auto part = [&](std::size_t member) {
            const program::Table::Member &held = table.members[member];
            return cost::expectedRows(kVocabulary, 4 * kContext, 4, held.firstRow, held.endRow);
        };
        std::map<std::string, double> seconds;
        for (const program::Task &task : program.tasks) {
            if (task.rank.value == 0)
                seconds[idOf(task)] = task.duration.value();
            const auto *exchange = task.as<program::RowExchange>();
            if (exchange == nullptr || task.rank.value != 3)
                continue;
            double expected = 3 * part(3).unique;
            if (exchange->gradients) {
                expected = 0;
                for (std::size_t member = 0; member < 3; ++member)
                    expected += exchange->part == program::RowPart::Prior ? part(member).prior
                                                                          : part(member).unique - part(member).prior;
            }
            QVERIFY(std::abs(static_cast<double>(exchange->bytes) / (4 * kHidden * expected) - 1) < 2e-3);
        }
        for (const program::Task &task : program.tasks)
            if (task.rank.value == 3 && task.as<program::RowWork>() != nullptr && idOf(task) == "s0.L.t0")
                QVERIFY(task.duration.value() < seconds.at("s0.L.t0"));
    }

    /// A table that is much larger than what a batch looks up of it.
    void whatIsFaster()
    {
        const plan::Subject about = subject(4, false, 1e7);
        const auto seconds = [&](const plan::Plan &plan) { return *simulate::iterationSeconds(compiled(plan, about)); };
        plan::Plan summed = byRows(about, 4, ExchangeScheduling::Fifo);
        summed.exchange = {};
        const double fifo = seconds(byRows(about, 4, ExchangeScheduling::Fifo));
        QVERIFY(fifo < seconds(summed));
        QVERIFY(seconds(byRows(about, 4, ExchangeScheduling::Horizontal)) <= fifo);
        QVERIFY(seconds(byRows(about, 4, ExchangeScheduling::TwoDimensional)) <= fifo);
        const double reduced = seconds(byRows(about, 4, ExchangeScheduling::Fifo, TableStrategy::AllReduce));
        QVERIFY(std::abs(reduced - seconds(summed)) < 1e-12);
    }
};

QTEST_GUILESS_MAIN(TestRowTables)
#include "tst_row_tables.moc"
