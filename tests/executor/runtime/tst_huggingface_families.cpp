// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/compile/compile.h"
#include "engine/import/import.h"
#include "engine/sharding/megatron.h"
#include "engine/sharding/sbp.h"
#include "engine/weights/safetensors.h"
#include "tests/executor/runtime/one_rank.h"
#include "tests/executor/runtime/tiny_training.h"

#include <QDirIterator>
#include <QTemporaryDir>
#include <QTest>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace planloom;
using namespace planloom::test;

namespace {

const QString kFolder = PLANLOOM_SOURCE_DIR "/tests/golden/huggingface";

// The numbers of export.py.
std::uint32_t mixed(std::uint32_t x)
{
    x ^= x >> 16;
    x *= 0x45D9F3BU;
    x ^= x >> 16;
    x *= 0x45D9F3BU;
    return x ^ x >> 16;
}

float value(const std::string &name, std::uint32_t index)
{
    std::uint32_t start = 2166136261U;
    for (const char byte : name)
        start = (start ^ static_cast<std::uint8_t>(byte)) * 16777619U;
    return static_cast<float>(mixed(start + index * 2654435761U) >> 9) / 4194304.0F - 1.0F;
}

class Tokens final : public data::DataSet {
public:
    Tokens(std::int64_t samples, std::int64_t length, std::int64_t vocabulary)
        : m_samples(samples),
          m_length(length),
          m_vocabulary(vocabulary)
    {
    }
    [[nodiscard]] std::int64_t samples() const override { return m_samples; }
    void fillInput(std::int64_t sample, void *out) const override { fillInputAt(0, sample, out); }
    /// The second input is a decoder's.
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        fill(sample, input == 0 ? 0 : 2, static_cast<std::int64_t *>(out));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override { fill(sample, 1, out); }

private:
    void fill(std::int64_t sample, std::int64_t shift, std::int64_t *out) const
    {
        for (std::int64_t i = 0; i < m_length; ++i)
            out[i] = mixed(static_cast<std::uint32_t>(sample * (m_length + 1) + i + shift + 1)) % m_vocabulary;
    }
    std::int64_t m_samples, m_length, m_vocabulary;
};

/// Pixels, and one label each.
class Images final : public data::DataSet {
public:
    Images(std::int64_t samples, std::int64_t elements, std::int64_t classes)
        : m_samples(samples),
          m_elements(elements),
          m_classes(classes)
    {
    }
    [[nodiscard]] std::int64_t samples() const override { return m_samples; }
    void fillInput(std::int64_t sample, void *out) const override
    {
        for (std::int64_t i = 0; i < m_elements; ++i)
            static_cast<float *>(out)[i] = value("x", static_cast<std::uint32_t>(sample * m_elements + i));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = mixed(static_cast<std::uint32_t>(sample + 1)) % m_classes;
    }

private:
    std::int64_t m_samples, m_elements, m_classes;
};

std::unique_ptr<data::DataSet> dataOf(const graph::Graph &model, std::int64_t samples)
{
    constexpr std::int64_t kVocabulary = 61;
    constexpr std::int64_t kClasses = 7;
    if (const TensorId tokens = model.find("tokens"); tokens.valid())
        return std::make_unique<Tokens>(samples, model.tensor(tokens).shape[1].size, kVocabulary);
    return std::make_unique<Images>(samples, model.tensor(model.find("x")).shape.elements(1), kClasses);
}

/// A folder as the hub has them: config.json, and its parameters beside it.
class Checkpoint {
public:
    explicit Checkpoint(const QString &name)
    {
        const auto text = readFile((kFolder + "/" + name + "/expected.json").toStdString());
        if (!text)
            qFatal("%s", text.error().text().c_str());
        expected = nlohmann::json::parse(*text);
        std::filesystem::copy_file((kFolder + "/" + name + "/config.json").toStdString(), path("config.json"));
        std::vector<std::vector<float>> values;
        std::vector<weights::TensorToWrite> list;
        for (const auto &[parameter, how] : expected["parameters"].items()) {
            const auto sizes = how["sizes"].get<std::vector<std::int64_t>>();
            std::int64_t count = 1;
            for (const std::int64_t size : sizes)
                count *= size;
            std::vector<float> &all = values.emplace_back();
            for (std::int64_t i = 0; i < count; ++i)
                all.push_back(value(parameter, static_cast<std::uint32_t>(i)) * how["scale"].get<float>()
                              + how["offset"].get<float>());
            list.push_back({parameter, graph::DType::F32, sizes, std::as_bytes(std::span(all))});
        }
        if (!weights::writeSafetensors(path("model.safetensors"), list, {{"format", "pt"}}))
            qFatal("cannot write weights");
    }
    [[nodiscard]] std::string path(const char *file) const { return m_folder.filePath(file).toStdString(); }
    [[nodiscard]] std::string folder() const { return m_folder.path().toStdString(); }

    nlohmann::json expected;

private:
    QTemporaryDir m_folder;
};

} // namespace

/// Models of the families that Hugging Face's importer builds, with weights beside them, against the losses of models
/// that were written anew in PyTorch (tests/golden/huggingface/export.py).
class TestHuggingFaceFamilies : public QObject {
    Q_OBJECT

private slots:
    void losses_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("layout");
        QStringList names;
        for (QDirIterator folders(kFolder, QDir::Dirs | QDir::NoDotAndDotDot); folders.hasNext();)
            if (const QString name = QFileInfo(folders.next()).fileName(); name != "__pycache__")
                names << name;
        names.sort();
        QVERIFY(names.size() >= 29);
        for (const QString &name : names)
            for (const char *layout : {"one rank", "2 data", "2 stages", "2 tensor"})
                QTest::addRow("%s, %s", qPrintable(name), layout) << name << QString(layout);
    }
    void losses()
    {
        QFETCH(QString, name);
        QFETCH(QString, layout);
        const Checkpoint checkpoint(name);
        const auto model = import::loadModel(checkpoint.path("config.json"));
        QVERIFY2(model.ok(), model ? "" : model.error().text().c_str());
        QVERIFY2(model->warnings.empty(), model->warnings.empty() ? "" : model->warnings.front().c_str());
        const auto parameters = model->graph->withRole(graph::TensorRole::Parameter);
        QCOMPARE(parameters.size(), checkpoint.expected["parameters"].size());
        for (const TensorId id : parameters)
            QVERIFY(model->graph->tensor(id).init.kind == graph::Initializer::Kind::File);
        const auto expected = checkpoint.expected["losses"].get<std::vector<double>>();
        const std::int64_t batch = checkpoint.expected["batch"];
        const auto steps = static_cast<std::int64_t>(expected.size());
        QVERIFY(steps >= 5);
        const auto subject = plan::makeSubject(model->graph, cpus(2), nullptr, model->source);
        plan::Optimizer optimizer;
        optimizer.rule = *update::ConfiguredRule::named("sgd");
        QVERIFY(optimizer.rule.set("momentum", 0).ok());
        optimizer.learningRate = checkpoint.expected["learning_rate"];
        optimizer.weightDecay = 0;
        Layout how{.globalBatch = batch};
        if (layout == "2 data")
            how.stages = {{{0.5, 0.5}}};
        if (layout == "2 stages")
            how = {.stages = {{}, {}}, .globalBatch = batch, .microBatches = 2};
        plan::Plan plan = planOf(subject, how, optimizer);
        if (layout == "2 tensor") {
            plan.stages.front().devices = {DeviceId(0), DeviceId(1)};
            plan.stages.front().mesh = {1, 2};
            for (const auto &[tensor, sbp] : sharding::megatronPins(*model->graph, {{1, 2}}, {false, false}))
                plan.stages.front().shardings[tensor] = sharding::toText(sbp);
        }
        const auto program = compile::compilePlan(plan, subject);
        QVERIFY2(program.ok(), program ? "" : program.error().text().c_str());
        const auto needs = data::needsOf(*model->graph);
        QVERIFY2(needs.ok(), needs ? "" : needs.error().text().c_str());
        Training training;
        training.steps = steps;
        training.modelFolder = checkpoint.folder();
        const auto data = dataOf(*model->graph, steps * batch);
        const InOrder inOrder(*data, training.seed);
        const runtime::Feed feed{&inOrder, *needs, data::SampleOrder(data->samples(), training.seed, 0)};
        const Outcome outcome = train(*program, subject, optimizer, feed, training);
        QCOMPARE(differs(outcome, expected, 1e-5), std::string());
    }
};

QTEST_GUILESS_MAIN(TestHuggingFaceFamilies)
#include "tst_huggingface_families.moc"
