// SPDX-License-Identifier: Apache-2.0
#include "executor/data/graph_folder.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/data/readers.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

namespace planloom::data {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

constexpr const char *kGraphSchema = "planloom.graph-data/1";
constexpr const char *kGraphJson = "graph.json";

std::string pathIn(const std::string &folder, const std::string &file)
{
    return (std::filesystem::path(folder) / file).string();
}

std::string shapeText(const std::vector<std::int64_t> &shape)
{
    std::string text;
    for (const std::int64_t size : shape)
        text += std::to_string(size) + ", ";
    return "(" + text + ")";
}

/// numpy's format, version 1.
template <class T>
std::string npyOf(const std::vector<T> &values, const char *type, const std::vector<std::int64_t> &shape)
{
    constexpr std::size_t kAlignment = 64;
    constexpr std::size_t kPrelude = 10; // magic, version and the header's length
    std::string header =
        std::string("{'descr': '<") + type + "', 'fortran_order': False, 'shape': " + shapeText(shape) + "}";
    header.resize((kPrelude + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrelude - 1, ' ');
    header += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xff);
    file += static_cast<char>(header.size() >> 8);
    file += header;
    const std::size_t begin = file.size();
    file.resize(begin + values.size() * sizeof(T));
    std::memcpy(file.data() + begin, values.data(), values.size() * sizeof(T));
    return file;
}

class GraphWriter {
public:
    explicit GraphWriter(const std::string &folder) : m_folder(folder) {}

    template <class T>
    void array(const char *file, const std::vector<T> &values, const char *type, std::vector<std::int64_t> shape)
    {
        if (!m_status)
            return;
        const std::string contents = npyOf(values, type, shape);
        m_hashes[file] = sha256(contents);
        m_status = writeFileAtomically(pathIn(m_folder, file), contents);
    }

    [[nodiscard]] const Status &status() const { return m_status; }
    [[nodiscard]] const std::map<std::string, std::string> &hashes() const { return m_hashes; }

private:
    std::string m_folder;
    Status m_status;
    std::map<std::string, std::string> m_hashes;
};

class GraphReader {
public:
    GraphReader(const std::string &folder, std::map<std::string, std::string> hashes)
        : m_folder(folder),
          m_hashes(std::move(hashes))
    {
    }

    /// @p shape: sizes that the array must have; -1: any, and is set.
    template <class T>
    void array(const char *file, const char *type, std::vector<std::int64_t> &shape, std::vector<T> &values)
    {
        if (!m_status)
            return;
        m_status = read(file, type, shape, values);
    }

    [[nodiscard]] const Status &status() const { return m_status; }

private:
    template <class T>
    Status read(const char *file, const char *type, std::vector<std::int64_t> &shape, std::vector<T> &values)
    {
        const std::string path = pathIn(m_folder, file);
        const auto contents = readFile(path);
        if (!contents)
            return contents.error();
        const auto hash = m_hashes.find(file);
        if (hash != m_hashes.end() && hash->second != sha256(*contents))
            return badInput("is not the file that graph.json was written with; make the graph again, or delete its "
                            "sha256 there to accept it")
                .in(path);
        if (!looksLikeNpy(*contents))
            return badInput("is no .npy file; save it with numpy.save").in(path);
        const auto array = parseNpy(*contents, path);
        if (!array)
            return array.error();
        if (array->type != type)
            return badInput("has elements of type " + std::string(array->type) + "; save " + type).in(path);
        if (array->shape.size() != shape.size())
            return badInput("has the shape " + shapeText(array->shape) + "; it must have "
                            + std::to_string(shape.size()) + " dimension(s)")
                .in(path);
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
            if (shape[axis] < 0)
                shape[axis] = array->shape[axis];
            else if (shape[axis] != array->shape[axis])
                return badInput("has " + std::to_string(array->shape[axis]) + " rows; the graph has "
                                + std::to_string(shape[axis]))
                    .in(path);
        }
        values.resize(static_cast<std::size_t>(array->count()));
        std::memcpy(values.data(), array->elements.data(), array->elements.size());
        return {};
    }

    std::string m_folder;
    std::map<std::string, std::string> m_hashes;
    Status m_status;
};

nlohmann::ordered_json noteOf(const gnn::GraphData &graph, const PartitionNote &partition, const std::string &from,
                              const std::map<std::string, std::string> &hashes)
{
    nlohmann::ordered_json note{{"schema", kGraphSchema}, {"source", graph.source}};
    if (!from.empty())
        note["source_sha256"] = from;
    note["nodes"] = graph.nodes();
    note["edges"] = graph.edges();
    note["features"] = graph.width;
    note["classes"] = graph.classes();
    if (!graph.part.empty()) {
        note["partition"] = {{"method", partition.method},
                             {"parts", graph.parts()},
                             {"seed", partition.seed},
                             {"balance_training", partition.balanceTraining}};
    }
    note["files"] = hashes;
    return note;
}

} // namespace

bool isGraphFolder(const std::string &path)
{
    std::error_code unknown;
    return std::filesystem::is_regular_file(pathIn(path, kGraphJson), unknown);
}

Status writeGraphFolder(const gnn::GraphData &graph, const PartitionNote &partition, const std::string &from,
                        const std::string &folder)
{
    if (Status status = gnn::checkGraph(graph); !status)
        return status;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return ioError("cannot be made: " + error.message() + "; choose another folder").in(folder);
    const std::int64_t nodes = graph.nodes();
    GraphWriter writer(folder);
    writer.array("indptr.npy", graph.offsets, "i8", {nodes + 1});
    writer.array("indices.npy", graph.arcs, "i8", {static_cast<std::int64_t>(graph.arcs.size())});
    writer.array("features.npy", graph.features, "f4", {nodes, graph.width});
    writer.array("labels.npy", graph.labels, "i4", {nodes});
    if (!graph.part.empty())
        writer.array("part.npy", graph.part, "i4", {nodes});
    if (!writer.status())
        return writer.status();
    if (graph.part.empty()) {
        std::filesystem::remove(pathIn(folder, "part.npy"), error); // of a graph that was here before
        if (error)
            return ioError("cannot be removed: " + error.message()).in(pathIn(folder, "part.npy"));
    }
    return writeFileAtomically(pathIn(folder, kGraphJson),
                               noteOf(graph, partition, from, writer.hashes()).dump(1) + "\n");
}

Result<gnn::GraphData> readGraphFolder(const std::string &folder)
{
    const std::string path = pathIn(folder, kGraphJson);
    const auto text = readFile(path);
    if (!text)
        return text.error();
    const auto document = parseJson(*text);
    if (!document)
        return document.error().in(path);
    JsonReader top(*document);
    if (top.text("schema") != kGraphSchema)
        top.fail("schema", std::string("must be \"") + kGraphSchema + "\"");
    gnn::GraphData graph;
    graph.source = top.text("source", std::string());
    std::map<std::string, std::string> hashes;
    top.each("files", [&hashes](JsonReader &file) { hashes[file.name()] = file.asText(); });
    if (Status status = top.failure(*text); !status)
        return status.error().in(path);
    GraphReader reader(folder, hashes);
    std::vector<std::int64_t> nodes{-1};
    std::vector<std::int64_t> arcs{-1};
    reader.array("labels.npy", "i4", nodes, graph.labels);
    std::vector<std::int64_t> offsets{nodes.front() + 1};
    reader.array("indptr.npy", "i8", offsets, graph.offsets);
    reader.array("indices.npy", "i8", arcs, graph.arcs);
    std::vector<std::int64_t> features{nodes.front(), -1};
    reader.array("features.npy", "f4", features, graph.features);
    if (top.has("partition"))
        reader.array("part.npy", "i4", nodes, graph.part);
    if (!reader.status())
        return reader.status().error();
    graph.width = features.back();
    if (Status status = gnn::checkGraph(graph); !status)
        return status.error().in(folder);
    return graph;
}

} // namespace planloom::data
