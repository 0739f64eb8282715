// SPDX-License-Identifier: Apache-2.0
// Steps of two models on 16 workers whose tables are exchanged in different ways (EmbRace): plans whose sums may end in
// the next step, by the cost clock. Times of blocks are those of published profiles; the network is flat, of 16 equal
// ports. The expected steps come from another simulation, a script; EmbRace's own measurements are not known for these
// networks.
#include "engine/compile/compile.h"
#include "engine/cost/signature.h"
#include "engine/simulate/simulate.h"

#include <QTest>

#include <cmath>
#include <map>
#include <set>

using namespace planloom;
using plan::ExchangeScheduling;
using plan::TableStrategy;

namespace {

constexpr int kWorkers = 16;
constexpr double kLatency = 5e-6; // seconds
constexpr double kFloat = 4;      // bytes

struct Block {
    double forward, backward; ///< milliseconds
    double bytes;             ///< of its parameters
    bool isTable = false;
};

struct Model {
    std::vector<Block> blocks; ///< in the order of the forward pass
    std::int64_t columns = 0;  ///< of tables
    std::int64_t rows = 0;     ///< that a worker looks up of a table in a step: one a sample
    double prior = 0.5;        ///< the part of them that the next step looks up
};

enum class How : std::uint8_t { AllReduce, AllGather, Fifo, Horizontal, TwoDimensional };

/// GNMT of 8 layers (PipeDream's profile of a V100), 1,536 ids a table. What has no parameters counts with the block
/// behind it.
Model gnmt()
{
    return {{{0.073, 6.949, 132382720, true},
             {5.247, 0.016, 67174400},
             {3.267, 5.544, 50364416},
             {2.555, 4.331, 33587200},
             {2.551, 4.322, 33587200},
             {0.066, 0.328, 132382720, true},
             {4.546, 6.141, 41979904},
             {3.209, 5.464, 50364416},
             {3.206, 5.480, 50364416},
             {3.204, 16.081, 50364416},
             {5.609, 1.227, 132512000}},
            1024,
            1536};
}

/// The language model that ZEN (OSDI 2025, table 1 and §5.1) measured: 114 ms a step, 80 MB beside a table of 406 M
/// numbers, of whose rows a step has 1.13 %. A backward pass is taken to be twice as long as a forward one, the look-up
/// to take 0.1 ms.
Model lstm()
{
    constexpr double kTable = 406e6;
    constexpr std::int64_t kColumns = 512;
    return {{{0.1, 0.1, kTable * kFloat, true}, {19, 38, 40e6}, {19, 38, 40e6}},
            kColumns,
            static_cast<std::int64_t>(0.0113 * kTable / kColumns),
            0.43};
}

/// A chain of matrix products with as many parameters; the rows of a table behind the first are joined.
class Chain {
public:
    explicit Chain(const Model &model) : m_model(model) {}

    std::shared_ptr<const graph::Graph> made()
    {
        const TensorId labels = m_builder.input("labels", graph::DType::I64, graph::Shape::batched({}));
        for (std::size_t b = 0; b < m_model.blocks.size(); ++b)
            m_model.blocks[b].isTable ? lookUp(b) : multiply(b);
        const TensorId loss =
            m_builder.add("SoftmaxCrossEntropyLoss", {m_last, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        auto graph = std::move(m_builder).build();
        if (!graph)
            qFatal("%s", graph.error().text().c_str());
        return std::make_shared<const graph::Graph>(*std::move(graph));
    }
    static std::string nameOf(std::size_t block) { return "block" + std::to_string(block); }

private:
    TensorId parameterOf(std::size_t b, std::int64_t rows, std::int64_t columns)
    {
        return m_builder.parameter(nameOf(b), graph::Shape::of({rows, columns}),
                                   {graph::Initializer::Kind::Uniform, -0.1, 0.1, nullptr, {}, 0});
    }

    /// No two tables have rows of one width, as times are known by it.
    void lookUp(std::size_t b)
    {
        const std::int64_t columns = m_model.columns - m_tables++;
        const std::int64_t rows = std::llround(m_model.blocks[b].bytes / kFloat / static_cast<double>(columns));
        const TensorId ids = m_builder.input("ids" + std::to_string(b), graph::DType::I64, graph::Shape::batched({}));
        const TensorId found =
            m_builder.add("Gather", {parameterOf(b, rows, columns), ids}, {}, "lookup" + std::to_string(b));
        m_last = b == 0
            ? found
            : m_builder.add("Concat", {m_last, found}, {{"axis", std::int64_t{1}}}, "join" + std::to_string(b));
        m_width += columns;
    }

    /// No two blocks have a matrix of one shape, as times are known by it.
    void multiply(std::size_t b)
    {
        std::int64_t width = std::llround(m_model.blocks[b].bytes / kFloat / static_cast<double>(m_width));
        while (!m_shapes.insert({m_width, width}).second)
            ++width;
        m_last = m_builder.add("MatMul", {m_last, parameterOf(b, m_width, width)}, {}, "product" + std::to_string(b));
        m_width = width;
    }

    const Model &m_model;
    graph::GraphBuilder m_builder{"chain"};
    TensorId m_last;
    std::int64_t m_width = 0;
    std::int64_t m_tables = 0;
    std::set<std::pair<std::int64_t, std::int64_t>> m_shapes;
};

std::shared_ptr<const cluster::Cluster> flat(double bandwidth)
{
    cluster::RegularCluster spec;
    spec.name = "flat";
    spec.nodes = kWorkers;
    spec.type = *cluster::knownDeviceType("V100");
    spec.type.memory = Bytes(std::int64_t{1} << 40);
    spec.intraBandwidth = 1e15;
    spec.intraLatency = Seconds(0);
    spec.interPointToPoint = spec.interCollective = bandwidth;
    spec.interLatency = Seconds(kLatency);
    auto cluster = cluster::regular(spec);
    if (!cluster)
        qFatal("%s", cluster.error().text().c_str());
    return std::make_shared<const cluster::Cluster>(*std::move(cluster));
}

plan::Plan planOf(const Model &model, const plan::Subject &subject, How how)
{
    plan::Plan plan;
    plan.globalBatch = model.rows * kWorkers;
    plan.bucketBytes = 1; // a sum of its own for each block
    plan.optimizer.rule = *update::ConfiguredRule::named("sgd");
    plan.optimizer.weightDecay = 0;
    plan.exchange.acrossSteps = true;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = subject.layers().size();
    for (int worker = 0; worker < kWorkers; ++worker)
        stage.devices.emplace_back(worker);
    plan.stages.push_back(std::move(stage));
    if (how == How::AllReduce)
        return plan;
    plan.exchange.policy = plan::ExchangePolicy::Sparse;
    plan.exchange.sparse.scheduling = how == How::TwoDimensional ? ExchangeScheduling::TwoDimensional
        : how == How::Horizontal                                 ? ExchangeScheduling::Horizontal
                                                                 : ExchangeScheduling::Fifo;
    for (std::size_t b = 0; b < model.blocks.size(); ++b)
        if (model.blocks[b].isTable)
            plan.exchange.sparse.tables.push_back(
                {Chain::nameOf(b), how == How::AllGather ? TableStrategy::AllGather : TableStrategy::AllToAll, true});
    return plan;
}

/// The blocks' times for the operators of @p training: a backward pass counts where it ends.
void addKernels(cost::Profile &profile, const Model &model, const graph::TrainingGraph &training)
{
    std::map<OpId, double> milliseconds;
    for (std::size_t p = 0; p < training.parameters.size(); ++p) {
        const std::string &name = training.graph.tensor(training.parameters[p]).name;
        const Block &block = model.blocks[static_cast<std::size_t>(std::stoi(name.substr(5)))];
        milliseconds[training.graph.consumers(training.parameters[p]).front()] = block.forward;
        milliseconds[training.graph.tensor(training.gradients[p]).producer] = block.backward;
    }
    for (const graph::Op &op : training.graph.ops()) {
        const auto known = milliseconds.find(op.id);
        const double seconds = known == milliseconds.end() ? 0 : known->second * 1e-3;
        profile.kernels[cost::signatureOf(training.graph, op)] = {{static_cast<double>(model.rows), Seconds(seconds)}};
    }
}

/// Of a step, in milliseconds.
double stepOf(const Model &model, double bandwidth, How how)
{
    const auto graph = Chain(model).made();
    const auto cluster = flat(bandwidth);
    const auto unknown = plan::makeSubject(graph, cluster, nullptr, "test");
    const auto first = compile::compilePlan(planOf(model, unknown, how), unknown);
    if (!first)
        qFatal("%s", first.error().text().c_str());
    auto profile = std::make_shared<cost::Profile>();
    profile->extra["optimizer_seconds_per_parameter"] = 1e-18;
    addKernels(*profile, model, first->bodies.front().training);
    const auto rows = static_cast<double>(model.rows);
    for (std::size_t b = 0; b < model.blocks.size(); ++b)
        if (model.blocks[b].isTable)
            profile->tables[Chain::nameOf(b)] = {rows, rows, model.prior * rows, kWorkers * rows};
    const auto subject = plan::makeSubject(graph, cluster, profile, "test");
    const auto program = compile::compilePlan(planOf(model, subject, how), subject, {.bodies = false, .fold = true});
    if (!program)
        qFatal("%s", program.error().text().c_str());
    const auto seconds = simulate::iterationSeconds(*program);
    if (!seconds)
        qFatal("%s", seconds.error().text().c_str());
    return *seconds * 1e3;
}

} // namespace

class TestSparseModels : public QObject {
    Q_OBJECT

private slots:
    void steps_data()
    {
        QTest::addColumn<bool>("recurrent");
        QTest::addColumn<double>("gigabits");
        QTest::addColumn<QList<double>>("reference"); // milliseconds, in the order of How
        QTest::newRow("GNMT-8, 100 Gb/s") << false << 100.0 << QList<double>{152.67, 127.93, 115.02, 107.18, 106.71};
        QTest::newRow("LSTM, 25 Gb/s") << true << 25.0 << QList<double>{1112.80, 226.41, 149.41, 149.41, 146.23};
        QTest::newRow("LSTM, 10 Gb/s") << true << 10.0 << QList<double>{2632.55, 416.69, 224.08, 223.98, 216.09};
    }
    void steps()
    {
        QFETCH(bool, recurrent);
        QFETCH(double, gigabits);
        QFETCH(QList<double>, reference);
        const Model model = recurrent ? lstm() : gnmt();
        QStringList wrong;
        for (const How how : {How::AllReduce, How::AllGather, How::Fifo, How::Horizontal, How::TwoDimensional}) {
            const double expected = reference[static_cast<int>(how)];
            const double here = stepOf(model, gigabits * 1e9 / 8, how);
            const QString text = QString("%1 ms, reference %2").arg(here, 0, 'f', 2).arg(expected, 0, 'f', 2);
            qInfo("%s", qPrintable(text));
            if (std::abs(here / expected - 1) > 0.01)
                wrong << text;
        }
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong.join("; ")));
    }
};

QTEST_GUILESS_MAIN(TestSparseModels)
#include "tst_sparse_models.moc"
