// SPDX-License-Identifier: Apache-2.0
// Traces of PyTorch's profiler laid over a plan: made by hand with known times, a real one, and hostile ones.
#include "engine/compile/compile.h"
#include "engine/import/import.h"
#include "engine/import/trace/foreign_trace.h"
#include "engine/overlay/alignment.h"
#include "engine/overlay/overlay.h"
#include "tests/engine/overlay/chain_plan.h"
#include "tests/engine/overlay/kineto_training.h"

#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace planloom;
using namespace planloom::overlay;
using tests::chain;
using tests::KinetoTraining;
using tests::planOf;

namespace {

constexpr double kMicro = 1e-6;

const Row *rowOf(const std::vector<Row> &rows, const std::string &name, const std::string &pass)
{
    const auto found = std::ranges::find_if(rows, [&](const Row &row) { return row.name == name && row.pass == pass; });
    return found == rows.end() ? nullptr : &*found;
}

const Unmatched *unmatched(const std::vector<Unmatched> &list, const std::string &name)
{
    const auto found = std::ranges::find(list, name, &Unmatched::name);
    return found == list.end() ? nullptr : &*found;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

/// The records of a task, by step.
std::vector<trace::Record> recordsOf(const trace::Trace &trace, const std::string &id, std::int32_t rank = 0)
{
    std::vector<trace::Record> made;
    for (const trace::Record &record : trace.records) {
        if (record.rank == rank && trace.task(record.task)->id == id)
            made.push_back(record);
    }
    std::ranges::sort(made, {}, &trace::Record::step);
    return made;
}

constexpr const char *kTrain = R"(
import sys, torch
sys.path.insert(0, sys.argv[1])
import torch_models
from torch.profiler import profile, schedule, ProfilerActivity
torch.set_num_threads(1)
model = torch_models.WithLoss()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.zeros(8, 12, dtype=torch.long)
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3),
             on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[2])) as p:
    for step in range(5):
        for micro in range(2):
            model(x, x).backward()
        optimizer.step()
        optimizer.zero_grad()
        p.step()
)";

} // namespace

class TestOverlay : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;

    [[nodiscard]] std::string at(const char *name) const { return m_folder.filePath(name).toStdString(); }

    [[nodiscard]] Result<Overlay> laid(const KinetoTraining &training, const plan::Document &document) const
    {
        NoProgress none;
        const auto read = import::readForeignTrace(training.write(at("trace.json")), none);
        if (!read)
            return read.error();
        return layOver(read->trace, document, "trace.json", none);
    }

private Q_SLOTS:
    void names_data()
    {
        QTest::addColumn<QString>("event");
        QTest::addColumn<int>("role");
        QTest::addColumn<int>("kind");
        using Role = Named::Role;
        const auto row = [](const char *event, Role role, OpKind kind) {
            QTest::newRow(event) << event << static_cast<int>(role) << static_cast<int>(kind);
        };
        row("aten::addmm", Role::Operator, OpKind::Product);
        row("aten::linear, seq = 12, op_id = 4", Role::Operator, OpKind::Product);
        row("aten::native_layer_norm", Role::Operator, OpKind::LayerNorm);
        row("aten::relu_", Role::Operator, OpKind::Relu);
        row("aten::_scaled_dot_product_flash_attention", Role::Operator, OpKind::Attention);
        row("aten::isnan", Role::Operator, OpKind::Other);
        row("aten::as_strided", Role::View, OpKind::Other);
        row("autograd::engine::evaluate_function: NativeLayerNormBackward0", Role::Backward, OpKind::LayerNorm);
        row("AddmmBackward0", Role::Backward, OpKind::Product);
        row("aten::native_layer_norm_backward", Role::Backward, OpKind::LayerNorm);
        row("torch::autograd::AccumulateGrad", Role::Backward, OpKind::Other);
        row("CheckpointFunctionBackward", Role::Recomputes, OpKind::Other);
        row("Optimizer.step#AdamW.step", Role::Optimizer, OpKind::Other);
        row("ProfilerStep#3", Role::Step, OpKind::Other);
        row("cudaLaunchKernel", Role::None, OpKind::Other);
        row("h.0.attn", Role::None, OpKind::Other);
        row("", Role::None, OpKind::Other);
    }
    void names()
    {
        QFETCH(QString, event);
        const Named what = named(event.toStdString());
        QTEST(static_cast<int>(what.role), "role");
        QTEST(static_cast<int>(heaviest(what.kinds)), "kind");
    }

    void kernelNames()
    {
        QCOMPARE(heaviest(namedKernel("ampere_sgemm_128x64_tn").kinds), OpKind::Product);
        const NamedKernel norm = namedKernel("void at::native::layer_norm_grad_input_kernel_vectorized<float>");
        QCOMPARE(heaviest(norm.kinds), OpKind::LayerNorm);
        QVERIFY(norm.backward && !norm.forward);
        QVERIFY(namedKernel("cunn_SoftMaxForward").forward);
        QVERIFY(namedKernel("multi_tensor_apply_kernel<AdamFunctor>").optimizer);
        QCOMPARE(namedKernel("triton_poi_fused_add_native_layer_norm_gelu_3").kinds,
                 only(OpKind::Add) | only(OpKind::LayerNorm) | only(OpKind::Gelu));
        QCOMPARE(namedKernel("something").kinds, KindSet{0});
    }

    /// Extra events between, an operator in pieces, one event of several operators, and the order of equal kinds.
    void alignments()
    {
        const std::vector<Wanted> wanted{
            {OpKind::LayerNorm}, {OpKind::Product}, {OpKind::Attention}, {OpKind::Product}, {OpKind::Add}};
        const auto found = [](std::initializer_list<OpKind> kinds) {
            std::vector<Found> made;
            for (const OpKind kind : kinds)
                made.push_back({only(kind)});
            return made;
        };
        const auto plain = align(wanted,
                                 found({OpKind::Reduction, OpKind::LayerNorm, OpKind::Product, OpKind::Dropout,
                                        OpKind::Attention, OpKind::Product, OpKind::Add}));
        QCOMPARE(plain.pairs, (std::vector<Pair>{{0, 1}, {1, 2}, {2, 4}, {3, 5}, {4, 6}}));
        // Attention as two products and a softmax.
        const auto pieces = align(wanted,
                                  found({OpKind::LayerNorm, OpKind::Product, OpKind::Product, OpKind::Softmax,
                                         OpKind::Product, OpKind::Product, OpKind::Add}));
        QCOMPARE(pieces.pairs, (std::vector<Pair>{{0, 0}, {1, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 5}, {4, 6}}));
        // The model has attention in pieces, the program one kernel.
        const std::vector<Wanted> apart{{OpKind::Product}, {OpKind::Softmax}, {OpKind::Product}};
        QCOMPARE(align(apart, std::vector<Found>{{only(OpKind::Attention)}}).pairs,
                 (std::vector<Pair>{{0, 0}, {1, 0}, {2, 0}}));
        // What is missing on either side is left out.
        QCOMPARE(align(wanted, found({OpKind::LayerNorm, OpKind::Product, OpKind::Product, OpKind::Add})).pairs.size(),
                 std::size_t{4});
        QVERIFY(align(wanted, found({OpKind::Pool, OpKind::Convolution})).pairs.empty());
        QVERIFY(align({}, found({OpKind::Pool})).pairs.empty());
        // A range that is called like a scope of the model decides between equals.
        const std::vector<std::int32_t> one{1};
        const std::vector<Wanted> twins{{OpKind::Product}, {OpKind::Product, &one}};
        QCOMPARE(align(twins, std::vector<Found>{{only(OpKind::Product), 1}}).pairs, (std::vector<Pair>{{1, 0}}));
    }

    /// Operators on a processor: each time is known.
    void exactTimes()
    {
        const plan::Document document = planOf(chain());
        KinetoTraining training;
        const auto over = laid(training, document);
        QVERIFY2(over, over ? "" : over.error().message.c_str());
        QCOMPARE(over->steps, std::int64_t{2}); // the first one warms up
        QCOMPARE(over->found, 1.0);
        QCOMPARE(over->timeMatched, 1.0);
        QCOMPARE(over->certainty(), Certainty::High);
        QVERIFY(over->onlyInTrace.empty() && over->onlyInPlan.empty());
        QCOMPARE(over->processes.size(), std::size_t{1});
        QVERIFY(over->processes[0].hasTasks && !over->processes[0].hasKernels && over->processes[0].hasOperators);
        for (int block = 0; block < 3; ++block) {
            const Row *forward = rowOf(over->layers, fmt::format("h/{}", block), "forward");
            QVERIFY(forward);
            QVERIFY(near(forward->measured, 2 * (training.linear(block) + training.kRelu) * kMicro));
            const Row *backward = rowOf(over->layers, fmt::format("h/{}", block), "backward");
            QVERIFY(near(backward->measured, 2 * (training.linearBack(block) + training.kReluBack) * kMicro));
            QVERIFY(forward->predicted > 0 && near(forward->ratio(), forward->predicted / forward->measured));
        }
        QVERIFY(near(rowOf(over->kinds, "product", "forward")->measured, 2 * (100 + 110 + 120 + 130) * kMicro));
        QVERIFY(near(rowOf(over->kinds, "relu", "backward")->measured, 2 * 3 * 9 * kMicro));
        QVERIFY(near(rowOf(over->kinds, "loss", "forward")->measured, 2 * 20 * kMicro));
        QVERIFY(near(rowOf(over->kinds, "optimizer", "update")->measured, 53 * kMicro));
        // What is predicted of the layers is what is predicted of the tasks.
        const auto program = compile::compilePlan(document.plan, document.subject);
        double tasks = 0, layers = 0;
        for (const auto &task : program->tasks)
            tasks +=
                task.kind() == trace::Kind::Forward || task.kind() == trace::Kind::Backward ? task.duration.value() : 0;
        for (const Row &row : over->layers)
            layers += row.predicted;
        QVERIFY(near(tasks, layers));
        // Tasks of the plan, and operators beneath.
        for (const char pass : {'F', 'B'}) {
            for (int m = 0; m < 2; ++m) {
                const auto records = recordsOf(over->trace, fmt::format("s0.{}.m{}", pass, m));
                QCOMPARE(records.size(), std::size_t{3});
                const auto origin = training.passes.at({0, 'F', 0}).first - 1; // the first mark of a step
                for (int step = 0; step < 3; ++step) {
                    const auto [begin, end] = training.passes.at({step, pass, m});
                    QCOMPARE(records[static_cast<std::size_t>(step)].start, 1000 * (begin - origin));
                    QCOMPARE(records[static_cast<std::size_t>(step)].duration, 1000 * (end - begin));
                }
            }
        }
        const auto beneath = recordsOf(over->trace, "s0.F.m1/h/1/up");
        QCOMPARE(beneath.size(), std::size_t{3});
        QCOMPARE(beneath[0].duration, std::int64_t{110'000});
        QCOMPARE(over->trace.lane(beneath[0].lane).work, trace::Work::Device);
        QCOMPARE(recordsOf(over->trace, "s0.O").size(), std::size_t{3});
        const auto json = nlohmann::json::parse(toJson(*over));
        QCOMPARE(json["certainty"].get<std::string>(), "high");
        QCOMPARE(json["layers"].size(), over->layers.size());
        QVERIFY(toText(*over).find("high confidence (1.00)") != std::string::npos);
    }

    /// Kernels count, by the operators that launched them; passes in another order than the plan's.
    void kernelsOfOperators_data()
    {
        QTest::addColumn<bool>("allForwardFirst");
        QTest::newRow("one forward, one backward") << false;
        QTest::newRow("all forward first") << true;
    }
    void kernelsOfOperators()
    {
        QFETCH(bool, allForwardFirst);
        KinetoTraining training;
        training.gpu = true;
        training.allForwardFirst = allForwardFirst;
        const auto over = laid(training, planOf(chain()));
        QVERIFY2(over, over ? "" : over.error().message.c_str());
        QCOMPARE(over->processes.size(), std::size_t{1});
        QVERIFY(over->processes[0].hasKernels && over->processes[0].hasTasks);
        QCOMPARE(over->confidence, 1.0);
        QVERIFY(near(rowOf(over->layers, "h/2", "forward")->measured, 2 * (120 + 7) * kMicro));
        QVERIFY(near(rowOf(over->kinds, "optimizer", "update")->measured, 50 * kMicro));
        const auto records = recordsOf(over->trace, "s0.B.m1");
        QCOMPARE(records.size(), std::size_t{3});
        const auto [begin, end] = training.passes.at({1, 'B', 1});
        QCOMPARE(records[1].duration, 1000 * (end - begin));
    }

    /// Kernels without operators, as of Nsight Systems without ranges.
    void kernelsAlone()
    {
        KinetoTraining training;
        training.gpu = true;
        training.operators = false;
        const auto over = laid(training, planOf(chain()));
        QVERIFY2(over, over ? "" : over.error().message.c_str());
        QVERIFY(!over->processes.at(0).hasOperators);
        QVERIFY(over->processes[0].hasTasks);
        QCOMPARE(over->certainty(), Certainty::Medium); // never high
        QVERIFY(near(rowOf(over->kinds, "relu", "backward")->measured, 2 * 3 * 9 * kMicro));
        QVERIFY(near(rowOf(over->kinds, "product", "forward")->measured, 2 * 460 * kMicro));
        QVERIFY(over->notes.front().find("kernels without operators") != std::string::npos);
    }

    /// Nothing is matched that is not there, and what is left over is listed.
    void leftOver()
    {
        KinetoTraining training;
        training.extras = true;
        const auto over = laid(training, planOf(chain()));
        QVERIFY(over);
        QCOMPARE(over->found, 1.0);
        const Unmatched *extra = unmatched(over->onlyInTrace, "aten::isnan");
        QVERIFY(extra);
        QCOMPARE(extra->count, std::int64_t{6});
        QVERIFY(near(extra->seconds, 6 * 5 * kMicro));
        QCOMPARE(extra->pass, "forward");
        QVERIFY(unmatched(over->onlyInTrace, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"));
        QVERIFY(near(rowOf(over->layers, "h/0", "forward")->measured, 2 * 107 * kMicro));
        QVERIFY(over->timeMatched < 1 && over->timeMatched > 0.9);
        QVERIFY(!recordsOf(over->trace, "not matched/aten::isnan").empty());
    }

    void otherModels()
    {
        KinetoTraining deeper;
        deeper.blocks = 6;
        const auto twice = laid(deeper, planOf(chain()));
        QVERIFY(twice);
        QCOMPARE(twice->certainty(), Certainty::Low);
        QVERIFY(unmatched(twice->onlyInTrace, "aten::linear"));
        KinetoTraining shallow;
        const auto half = laid(shallow, planOf(chain(6)));
        QVERIFY(half);
        QVERIFY(half->certainty() != Certainty::High);
        QVERIFY(!half->onlyInPlan.empty());
        QCOMPARE(half->processes.at(0).microBatches, std::int64_t{2});
        KinetoTraining convolutions;
        convolutions.first = "conv2d";
        convolutions.firstNode = "ConvolutionBackward0";
        const auto other = laid(convolutions, planOf(chain()));
        QVERIFY(other);
        QCOMPARE(other->certainty(), Certainty::Low);
        QVERIFY(unmatched(other->onlyInTrace, "aten::conv2d"));
    }

    /// More micro-batches than the plan has: no tasks, but sums of a step.
    void otherMicroBatches()
    {
        KinetoTraining training;
        training.microBatches = 5;
        const auto over = laid(training, planOf(chain()));
        QVERIFY(over);
        QCOMPARE(over->processes.at(0).microBatches, std::int64_t{5});
        QVERIFY(!over->processes[0].hasTasks);
        QVERIFY(recordsOf(over->trace, "s0.F.m0").empty());
        QCOMPARE(recordsOf(over->trace, "s0.F").size(), std::size_t{15});
        QVERIFY(near(rowOf(over->layers, "h/0", "forward")->measured, 5 * 107 * kMicro));
        QVERIFY(over->notes.front().find("5 micro-batches a step, the plan has 2") != std::string::npos);
    }

    void stepsByTheOptimizer()
    {
        KinetoTraining training;
        training.marks = false;
        training.steps = 4;
        const auto over = laid(training, planOf(chain()));
        QVERIFY(over);
        QCOMPARE(over->steps, std::int64_t{3});
        QCOMPARE(over->processes.at(0).microBatches, std::int64_t{2});
        QCOMPARE(over->confidence, 1.0);
    }

    /// The same operators of another width are another model.
    void sizes()
    {
        KinetoTraining training;
        training.width = 8;
        const auto same = laid(training, planOf(chain()));
        QVERIFY(same);
        QCOMPARE(same->sizesAgree, std::int64_t{2 * 4});
        QCOMPARE(same->confidence, 1.0);
        QVERIFY(toText(*same).find("sizes of 8 of 8 agree") != std::string::npos);
        training.width = 24;
        const auto other = laid(training, planOf(chain()));
        QVERIFY(other);
        QCOMPARE(other->sizesDiffer, std::int64_t{2 * 4});
        QCOMPARE(other->certainty(), Certainty::Low);
        QVERIFY(other->notes.front().find("8 of 8 operators have other sizes") != std::string::npos);
    }

    void scopes()
    {
        KinetoTraining training;
        training.scope = "h.";
        const auto over = laid(training, planOf(chain()));
        QVERIFY(over);
        QCOMPARE(over->byScope, std::int64_t{2 * 3 * 2});
        QCOMPARE(over->confidence, 1.0);
        QVERIFY(toText(*over).find("names of ranges") != std::string::npos);
    }

    /// One process against a pipeline, and a process for each replica.
    void severalRanks()
    {
        KinetoTraining training;
        const auto whole = laid(training, planOf(chain(), 2));
        QVERIFY(whole);
        QCOMPARE(whole->processes.at(0).devices.size(), std::size_t{2});
        QCOMPARE(whole->confidence, 1.0);
        QVERIFY(near(rowOf(whole->layers, "h/2", "backward")->measured, 2 * (240 + 9) * kMicro));
        QCOMPARE(recordsOf(whole->trace, "s1.F.m0", 1).size(), std::size_t{3});
        training.gpu = training.reduces = true;
        const std::string first = training.write(at("rank0.json"));
        training.rank = 1;
        NoProgress none;
        const auto read = import::readForeignTraces({first, training.write(at("rank1.json"))}, none);
        QVERIFY(read);
        const auto both = layOver(read->trace, planOf(chain(), 1, 2), "two", none);
        QVERIFY2(both, both ? "" : both.error().message.c_str());
        QCOMPARE(both->processes.size(), std::size_t{2});
        QCOMPARE(both->processes[0].devices, std::vector<std::string>{"n0:g0"});
        QCOMPARE(both->processes[1].devices, std::vector<std::string>{"n0:g1"});
        QCOMPARE(recordsOf(both->trace, "s0.F.m0", 1).size(), std::size_t{3});
        const Row *reduce = rowOf(both->kinds, "all-reduce", "exchange");
        QVERIFY(reduce && near(reduce->measured, 40 * kMicro));
        QVERIFY(near(rowOf(both->layers, "h/0", "forward")->measured, 2 * 107 * kMicro));
    }

    /// Of the second rank the first step is cut off: its second one stays the second.
    void stepsOfAllRanks()
    {
        KinetoTraining training;
        training.gpu = true;
        training.steps = 4;
        const std::string first = training.write(at("rank0.json"));
        training.rank = 1;
        auto second = nlohmann::json::parse(training.text());
        const std::int64_t end = training.passes.at({1, 'F', 0}).first - 10;
        nlohmann::json kept = nlohmann::json::array();
        for (const auto &event : second["traceEvents"]) {
            if (event["ts"].get<std::int64_t>() >= end)
                kept.push_back(event);
        }
        second["traceEvents"] = kept;
        std::ofstream(at("rank1.json")) << second.dump();
        NoProgress none;
        const auto read = import::readForeignTraces({first, at("rank1.json")}, none);
        QVERIFY(read);
        const auto both = layOver(read->trace, planOf(chain(), 1, 2), "two", none);
        QVERIFY2(both, both ? "" : both.error().message.c_str());
        const auto whole = recordsOf(both->trace, "s0.F.m0", 0);
        const auto cut = recordsOf(both->trace, "s0.F.m0", 1);
        QCOMPARE(whole.size(), std::size_t{4});
        QCOMPARE(cut.size(), std::size_t{3});
        for (std::size_t step = 1; step < 4; ++step) {
            QCOMPARE(cut[step - 1].step, whole[step].step);
            QCOMPARE(cut[step - 1].start, whole[step].start);
        }
        QCOMPARE(both->steps, std::int64_t{3});
    }

    /// Without marks an exchange is of the step that launched it.
    void exchangesThatRunLater()
    {
        KinetoTraining training;
        training.gpu = training.lateReduces = true;
        training.marks = false;
        training.steps = 4;
        const std::string first = training.write(at("rank0.json"));
        training.rank = 1;
        NoProgress none;
        const auto read = import::readForeignTraces({first, training.write(at("rank1.json"))}, none);
        QVERIFY(read);
        const auto both = layOver(read->trace, planOf(chain(), 1, 2), "two", none);
        QVERIFY2(both, both ? "" : both.error().message.c_str());
        std::vector<std::int32_t> steps;
        for (const trace::Record &record : both->trace.records) {
            if (record.rank == 0 && both->trace.task(record.task)->kind == trace::Kind::AllReduce)
                steps.push_back(record.step);
        }
        std::ranges::sort(steps);
        QCOMPARE(steps, (std::vector<std::int32_t>{0, 1, 2, 3}));
    }

    /// What the plan runs again it has no operators for: it is no loss. Where it does not, it is left over.
    void recomputedPasses()
    {
        KinetoTraining training;
        training.recomputes = true;
        auto document = planOf(chain());
        const auto without = laid(training, document);
        QVERIFY2(without, without ? "" : without.error().message.c_str());
        QVERIFY(without->timeMatched < 0.95);
        document.plan.stages[0].recompute = plan::Recompute::Full;
        const auto with = laid(training, document);
        QVERIFY2(with, with ? "" : with.error().message.c_str());
        QCOMPARE(with->timeMatched, 1.0);
        QCOMPARE(with->confidence, 1.0);
        const Unmatched *again = unmatched(with->onlyInTrace, "aten::linear");
        QVERIFY(again && again->pass == "recompute");
    }

    /// Both processes run the last stage: the first is laid over its device, which is then taken.
    void oneProcessADevice()
    {
        auto document = planOf(chain(24), 2);
        const std::size_t layers = document.subject.layers().size();
        document.plan.stages[0].lastLayer = document.plan.stages[1].firstLayer = layers - 1;
        KinetoTraining training;
        training.blocks = 0;
        const std::string first = training.write(at("rank0.json"));
        training.rank = 1;
        NoProgress none;
        const auto read = import::readForeignTraces({first, training.write(at("rank1.json"))}, none);
        QVERIFY(read);
        const auto both = layOver(read->trace, document, "two", none);
        QVERIFY2(both, both ? "" : both.error().message.c_str());
        QCOMPARE(both->processes.at(0).devices, std::vector<std::string>{"n0:g1"});
        for (std::size_t i = 1; i < both->processes.size(); ++i)
            QVERIFY(both->processes[i].devices != both->processes[0].devices);
    }

    /// Long work can be stopped between two steps.
    void stoppedBetweenSteps()
    {
        class Stops final : public Progress {
        public:
            explicit Stops(int after) : m_left(after) {}
            void report(double, std::string_view) override { --m_left; }
            [[nodiscard]] bool stopped() const override { return m_left < 0; }
            [[nodiscard]] int left() const { return m_left; }

        private:
            int m_left;
        };
        KinetoTraining training;
        training.steps = 40;
        NoProgress none;
        const auto read = import::readForeignTrace(training.write(at("long.json")), none);
        QVERIFY(read);
        Stops never(1000);
        QVERIFY(layOver(read->trace, planOf(chain()), "long.json", never));
        QVERIFY(never.left() < 1000 - 40); // a report a step
        for (const int after : {0, 1, 20}) {
            Stops stops(after);
            const auto over = layOver(read->trace, planOf(chain()), "long.json", stops);
            QVERIFY(!over);
            QCOMPARE(over.error().code, ErrorCode::Cancelled);
            QCOMPARE(stops.left(), -1); // nothing goes on behind it
        }
    }

    /// What PyTorch itself writes, of the model that resources/tools/export_torch.py exports.
    void realTrace()
    {
        QProcess process;
        process.start("/usr/bin/python3",
                      {"-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"});
        if (!process.waitForFinished(60'000) || process.exitCode() != 0)
            QSKIP("Debian's python3-torch is not installed");
        process.start("/usr/bin/python3",
                      {"-c", kTrain, PLANLOOM_SOURCE_DIR "/tests/engine/import", m_folder.filePath("torch.json")});
        QVERIFY(process.waitForFinished(120'000));
        QVERIFY2(process.exitCode() == 0, process.readAllStandardError().constData());
        process.start("/usr/bin/python3",
                      {PLANLOOM_SOURCE_DIR "/resources/tools/export_torch.py",
                       PLANLOOM_SOURCE_DIR "/tests/engine/import/torch_models.py:trained", "-o",
                       m_folder.filePath("net.onnx")});
        QVERIFY(process.waitForFinished(120'000));
        const auto model = import::loadModel(at("net.onnx"));
        QVERIFY2(model, model ? "" : model.error().message.c_str());
        NoProgress none;
        const auto read = import::readForeignTrace(at("torch.json"), none);
        QVERIFY(read);
        const auto over = layOver(read->trace, planOf(model->graph), "torch.json", none);
        QVERIFY2(over, over ? "" : over.error().message.c_str());
        qInfo("%s", toText(*over).c_str());
        QCOMPARE(over->processes.at(0).microBatches, std::int64_t{2});
        QVERIFY(over->found > 0.9);
        QVERIFY(over->timeMatched > 0.6);
        QCOMPARE(over->steps, std::int64_t{2});
        // Each product is found: seven forward and seven backward, in both micro-batches.
        QCOMPARE(rowOf(over->kinds, "product", "forward")->missing, std::int64_t{0});
        QCOMPARE(rowOf(over->kinds, "product", "backward")->missing, std::int64_t{0});
        QCOMPARE(rowOf(over->kinds, "normalization", "backward")->missing, std::int64_t{0});
        QCOMPARE(recordsOf(over->trace, "s0.B.m1").size(), std::size_t{3});
    }

    void hostile_data()
    {
        QTest::addColumn<QByteArray>("text");
        QTest::newRow("nothing") << QByteArray(R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1}])");
        QByteArray nested = "[";
        for (int i = 0; i < 300; ++i)
            nested += QStringLiteral("%1{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::linear\",\"pid\":1,\"tid\":1,"
                                     "\"ts\":%2,\"dur\":%3}")
                          .arg(i > 0 ? "," : "")
                          .arg(i)
                          .arg(1000 - 2 * i)
                          .toUtf8();
        QTest::newRow("nested") << nested + "]";
        QTest::newRow("far apart") << QByteArray(
            R"([{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":0,"dur":2000000000000000},
                {"ph":"X","cat":"cpu_op","name":"MseLossBackward0","pid":1,"tid":1,"ts":2000000000000000,"dur":1,"args":{"step":2147483647}}])");
        QTest::newRow("a launch of itself") << QByteArray(
            R"([{"ph":"X","cat":"cuda_runtime","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":3,"args":{"correlation":1}},
                {"ph":"X","cat":"cuda_runtime","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":1}},
                {"ph":"X","cat":"kernel","name":"","pid":1,"tid":1,"ts":1,"dur":0,"args":{"correlation":1}}])");
        QByteArray many = "[";
        for (int i = 0; i < 20'000; ++i)
            many += QStringLiteral(
                        "%1{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%2,\"dur\":1}")
                        .arg(i > 0 ? "," : "")
                        .arg(2 * i)
                        .toUtf8();
        QTest::newRow("one kernel for ever") << many + "]";
    }
    void hostile()
    {
        QFETCH(QByteArray, text);
        std::ofstream(at("hostile.json")).write(text.constData(), text.size());
        NoProgress none;
        const auto read = import::readForeignTrace(at("hostile.json"), none);
        QVERIFY(read);
        const auto over = layOver(read->trace, planOf(chain()), "hostile.json", none);
        if (!over)
            QVERIFY2(over.error().message.find("no operators and no kernels") != std::string::npos
                         || over.error().message.find("nothing of it fits the plan") != std::string::npos,
                     over.error().message.c_str());
        else
            QVERIFY(over->certainty() != Certainty::High);
    }

    void refusals()
    {
        NoProgress none;
        std::ofstream(at("embedding.json"))
            << R"([{"ph":"X","cat":"cpu_op","name":"aten::embedding","pid":1,"tid":1,"ts":0,"dur":5}])";
        const auto read = import::readForeignTrace(at("embedding.json"), none);
        QVERIFY(read);
        const auto other = layOver(read->trace, planOf(chain()), "embedding.json", none);
        QVERIFY(!other);
        QVERIFY2(other.error().message.starts_with("nothing of it fits the plan"), other.error().message.c_str());
        trace::Trace empty;
        const auto over = layOver(empty, planOf(chain()), "empty.json", none);
        QVERIFY(!over);
        QCOMPARE(over.error().message, "the trace is empty");
    }
};

QTEST_GUILESS_MAIN(TestOverlay)
#include "tst_overlay.moc"
