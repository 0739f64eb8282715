// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/file_kind.h"

#include "engine/import/import.h"
#include "engine/import/trace/foreign_trace.h"
#include "ui/state/sampled_graph.h"

#include <QByteArray>
#include <QFile>
#include <QFileInfo>

namespace planloom::ui {

namespace {

constexpr qint64 kHeadBytes = 4096;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

FileKind classifyJson(std::string_view head)
{
    if (contains(head, "planloom.plan/"))
        return FileKind::Plan;
    if (contains(head, "planloom.cluster/"))
        return FileKind::Cluster;
    if (!contains(head, "planloom.")
        && (contains(head, "\"train_batch_size\"") || contains(head, "\"train_micro_batch_size_per_gpu\"")
            || contains(head, "\"zero_optimization\"")))
        return FileKind::Setup; // DeepSpeed's
    return FileKind::Model;     // planloom.graph/1, or the config.json of Hugging Face: the importer tells them apart
}

FileKind classifyText(std::string_view head)
{
    for (const char *argument :
         {"--micro-batch-size", "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers"})
        if (contains(head, argument))
            return FileKind::Setup; // Megatron-LM's
    // `nvidia-smi topo -m` starts with a header line of GPU0 GPU1 ...; everything else in text is a layer profile.
    return contains(head, "GPU0") && !contains(head, "node1 ") ? FileKind::Cluster : FileKind::Model;
}

QByteArray headOf(const QString &name)
{
    QFile file(name);
    return file.open(QIODevice::ReadOnly) ? file.read(kHeadBytes) : QByteArray();
}

std::string_view viewOf(const QByteArray &bytes) { return {bytes.constData(), static_cast<std::size_t>(bytes.size())}; }

} // namespace

FileKind classify(const QString &name, std::string_view head)
{
    const QString lower = name.toLower();
    if (import::traceFormat(name.toStdString(), head) != import::TraceFormat::None)
        return FileKind::ForeignTrace;
    if (lower.startsWith(QLatin1String("zoo:")) || lower.endsWith(QLatin1String(".onnx")))
        return FileKind::Model;
    if (lower.startsWith(QLatin1String("preset:")) || lower == QLatin1String("local")
        || lower.startsWith(QLatin1String("local:")))
        return FileKind::Cluster;
    if (lower.endsWith(QLatin1String(".yaml")) || lower.endsWith(QLatin1String(".yml"))
        || lower.endsWith(QLatin1String(".xml")))
        return FileKind::Cluster;
    if (lower.endsWith(QLatin1String(".pltrace")))
        return FileKind::Trace;
    if (lower.endsWith(QLatin1String(".toml")) || lower.endsWith(QLatin1String(".args"))
        || lower.endsWith(QLatin1String(".sh")))
        return FileKind::Setup;
    if (lower.endsWith(QLatin1String(".csv")))
        return FileKind::Order;
    if (lower.endsWith(QLatin1String(".json")) || lower.endsWith(QLatin1String(".plan")))
        return classifyJson(head);
    if (lower.endsWith(QLatin1String(".txt")) && !import::isSlurmTopology(head))
        return classifyText(head);
    return import::looksLikeCluster(name.toStdString(), head) ? FileKind::Cluster : FileKind::Unknown;
}

FileKind classifyFile(const QString &name)
{
    if (QFileInfo(name).isDir()) {
        if (QFileInfo::exists(name + QStringLiteral("/plan.json")))
            return FileKind::Run;
        return holdsGraph(name) ? FileKind::Graph : FileKind::Unknown;
    }
    const QString file = QString::fromStdString(import::clusterFileOf(name.toStdString()));
    if (file != name && QFileInfo::exists(file)) // "topo.txt,gpu=H100-SXM"
        return FileKind::Cluster;
    return classify(name, viewOf(headOf(name)));
}

} // namespace planloom::ui
