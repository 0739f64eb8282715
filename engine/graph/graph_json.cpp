// SPDX-License-Identifier: Apache-2.0
#include "engine/base/base64.h"
#include "engine/base/json_reader.h"
#include "engine/graph/graph.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

namespace planloom::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kSchema = "planloom.graph/1";
constexpr std::array kRoles{"input", "parameter", "state", "constant", "activation"};
constexpr std::array kLossOrigins{"model", "added", "chosen"};
constexpr std::array kInitializers{"none", "zeros", "ones", "normal", "uniform", "data", "file"};

// Bounds on files: far above any real model, low enough that a hostile one cannot exhaust memory by a
// number.
constexpr std::size_t kMostRank = 16;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

// ---- writing

Json numberToJson(double value)
{
    if (std::isfinite(value))
        return value;
    return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
}

Json toJsonValue(const Attribute &attribute)
{
    if (const auto *integer = std::get_if<std::int64_t>(&attribute))
        return *integer;
    if (const auto *number = std::get_if<double>(&attribute))
        return std::isfinite(*number) ? Json(*number) : Json{{"float", numberToJson(*number)}};
    if (const auto *text = std::get_if<std::string>(&attribute))
        return *text;
    if (const auto *integers = std::get_if<std::vector<std::int64_t>>(&attribute))
        return *integers;
    Json values = Json::array();
    for (const double value : std::get<std::vector<double>>(attribute))
        values.push_back(numberToJson(value));
    return Json{{"floats", std::move(values)}};
}

Json shapeToJson(const Shape &shape)
{
    Json dims = Json::array();
    for (const Dim &dim : shape.dims()) {
        if (dim.batch)
            dims.push_back(dim.size == 1 ? std::string("N") : std::to_string(dim.size) + "N");
        else
            dims.push_back(dim.size);
    }
    return dims;
}

Json initializerToJson(const Tensor &tensor, std::int64_t inlineLimit)
{
    const Initializer &init = tensor.init;
    Json json{{"kind", kInitializers[static_cast<std::size_t>(init.kind)]}};
    switch (init.kind) {
    case Initializer::Kind::Normal:
    case Initializer::Kind::Uniform:
        json["a"] = init.a;
        json["b"] = init.b;
        break;
    case Initializer::Kind::Data:
        if (init.data
            && (tensor.role == TensorRole::Constant || static_cast<std::int64_t>(init.data->size()) <= inlineLimit))
            json["data"] = toBase64(*init.data);
        break;
    case Initializer::Kind::File:
        json["file"] = init.file;
        json["offset"] = init.offset;
        break;
    default: break;
    }
    return json;
}

Json tensorToJson(const Tensor &tensor, std::int64_t inlineLimit)
{
    Json json{{"name", tensor.name},
              {"type", name(tensor.type)},
              {"shape", shapeToJson(tensor.shape)},
              {"role", kRoles[static_cast<std::size_t>(tensor.role)]}};
    if (tensor.init.kind != Initializer::Kind::None)
        json["init"] = initializerToJson(tensor, inlineLimit);
    return json;
}

Json opToJson(const Graph &graph, const Op &op)
{
    const auto names = [&](const std::vector<TensorId> &ids) {
        Json list = Json::array();
        for (const TensorId id : ids)
            list.push_back(id.valid() ? Json(graph.tensor(id).name) : Json(nullptr));
        return list;
    };
    Json json{{"type", op.type.name()}, {"name", op.name}};
    if (!op.scope.empty())
        json["scope"] = op.scope;
    json["inputs"] = names(op.inputs);
    json["outputs"] = names(op.outputs);
    if (!op.attributes.empty()) {
        Json attributes = Json::object();
        for (const auto &[key, value] : op.attributes)
            attributes[key] = toJsonValue(value);
        json["attributes"] = std::move(attributes);
    }
    return json;
}

// ---- reading

std::size_t choice(JsonReader &from, const char *key, std::span<const char *const> names)
{
    const std::string value = from.text(key);
    const auto found = std::find(names.begin(), names.end(), value);
    if (found != names.end())
        return static_cast<std::size_t>(found - names.begin());
    from.fail(key, fmt::format("is '{}'; one of {} is expected", value, fmt::join(names, ", ")));
    return 0;
}

double wideNumber(JsonReader &from)
{
    if (!from.value().is_string())
        return from.asNumber();
    const std::string word = from.asText();
    if (word == "inf")
        return std::numeric_limits<double>::infinity();
    if (word == "-inf")
        return -std::numeric_limits<double>::infinity();
    if (word != "nan")
        from.fail({}, "is '" + word + "'; a number, \"inf\", \"-inf\" or \"nan\" is expected");
    return std::numeric_limits<double>::quiet_NaN();
}

std::int64_t anyInteger(JsonReader &from)
{
    return from.asInteger(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}

Dim dimOf(JsonReader &from)
{
    if (!from.value().is_string())
        return {from.asInteger(0, kMostSize), false};
    const std::string word = from.asText();
    const std::string digits = word.substr(0, word.empty() ? 0 : word.size() - 1);
    const bool numeric = digits.size() <= 13 && digits.find_first_not_of("0123456789") == std::string::npos;
    Dim dim{1, true};
    if (word.empty() || word.back() != 'N' || !numeric)
        from.fail({}, "is '" + word + "'; a size such as 768, \"N\" or \"128N\" is expected");
    else if (!digits.empty())
        dim.size = std::stoll(digits);
    if (dim.size > kMostSize)
        from.fail({}, fmt::format("is out of range; at most {} is expected", kMostSize));
    return dim;
}

Shape shapeOf(JsonReader &from)
{
    std::vector<Dim> dims;
    from.list("shape", [&](JsonReader &dim) {
        if (dims.size() < kMostRank)
            dims.push_back(dimOf(dim));
        else
            from.fail("shape", fmt::format("has more than {} dimensions", kMostRank));
    });
    return Shape(std::move(dims));
}

Initializer initializerOf(JsonReader from)
{
    Initializer init;
    init.kind = static_cast<Initializer::Kind>(choice(from, "kind", kInitializers));
    if (init.kind == Initializer::Kind::Normal || init.kind == Initializer::Kind::Uniform) {
        init.a = from.number("a");
        init.b = from.number("b");
    }
    if (init.kind == Initializer::Kind::File) {
        init.file = from.text("file");
        init.offset = from.integer("offset", 0);
    }
    if (init.kind != Initializer::Kind::Data)
        return init;
    if (!from.has("data"))
        return {}; // written without its large data: the value is unknown, the shape is not
    auto bytes = fromBase64(from.text("data"));
    if (bytes)
        init.data = std::make_shared<const std::vector<std::byte>>(std::move(*bytes));
    else
        from.fail("data", bytes.error().message);
    return init;
}

Attribute attributeOf(JsonReader &from)
{
    const nlohmann::json &value = from.value();
    if (value.is_number_float())
        return from.asNumber();
    if (value.is_string())
        return from.asText();
    if (value.is_array()) {
        std::vector<std::int64_t> values;
        from.each([&](JsonReader &entry) { values.push_back(anyInteger(entry)); });
        return values;
    }
    if (!value.is_object())
        return anyInteger(from);
    std::vector<double> values;
    const auto add = [&](JsonReader &entry) { values.push_back(wideNumber(entry)); };
    if (!from.has("float")) {
        from.list("floats", add);
        return values;
    }
    from.each([&](JsonReader &entry) {
        if (entry.name() == "float")
            add(entry);
    });
    return values.empty() ? 0 : values.front();
}

/// Fills a GraphBuilder from the document.
class Reader {
public:
    explicit Reader(const nlohmann::json &document) : m_top(document), m_builder(nameOf()) {}

    /// Error: the first mistake, with its line in @p text; those of GraphBuilder::build.
    Result<Graph> read(std::string_view text)
    {
        m_top.list("tensors", [this](JsonReader &from) { readTensor(from); });
        m_top.list("ops", [this](JsonReader &from) { readOp(from); });
        m_top.each("outputs", [this](JsonReader &from) {
            if (const TensorId id = tensor(from); id.valid())
                m_builder.output(id);
        });
        if (m_top.has("loss") && !m_top.value()["loss"].is_null())
            if (const TensorId id = tensorNamed(m_top, "loss", m_top.text("loss")); id.valid())
                m_builder.loss(id, lossOrigin());
        if (const Status failure = m_top.failure(text); !failure)
            return failure.error();
        Result<Graph> graph = std::move(m_builder).build();
        if (!graph)
            return graph;
        if (const Status same = agrees(*graph); !same)
            return same.error();
        return graph;
    }

private:
    std::string nameOf()
    {
        if (const std::string schema = m_top.text("schema"); schema != kSchema)
            m_top.fail("schema", fmt::format("is '{}'; this version reads {}", schema, kSchema));
        return m_top.text("name");
    }

    void readTensor(JsonReader &from)
    {
        const std::string tensorName = from.text("name");
        if (m_ids.contains(tensorName))
            from.fail("name", "repeats '" + tensorName + "'");
        TensorInfo declared;
        if (const std::string typeName = from.text("type"); !fromName(typeName, declared.type))
            from.fail("type", "is '" + typeName + "', which is not a data type");
        declared.shape = shapeOf(from);
        const auto role = static_cast<TensorRole>(choice(from, "role", kRoles));
        Initializer init;
        if (from.has("init"))
            init = initializerOf(from.object("init"));
        if (role == TensorRole::State && declared.shape.batched())
            from.fail("shape", "of '" + tensorName + "' depends on the batch; give it fixed sizes");
        if (role == TensorRole::Constant && !init.data)
            from.fail("init", "must give the constant's data");
        if (!from.failed())
            m_ids.emplace(tensorName, addTensor(tensorName, declared, role, std::move(init)));
        m_declared.push_back(std::move(declared));
    }

    TensorId addTensor(const std::string &tensorName, const TensorInfo &declared, TensorRole role, Initializer init)
    {
        const auto &[type, shape] = declared;
        switch (role) {
        case TensorRole::Input: return m_builder.input(tensorName, type, shape);
        case TensorRole::Parameter: return m_builder.parameter(tensorName, shape, std::move(init), type);
        case TensorRole::State: return m_builder.state(tensorName, shape, std::move(init), type);
        case TensorRole::Constant: return m_builder.constant(tensorName, type, shape, *init.data);
        case TensorRole::Activation: break;
        }
        return m_builder.activation(tensorName, type, shape, true);
    }

    LossOrigin lossOrigin()
    {
        LossOrigin origin;
        if (!m_top.has("loss_origin"))
            return origin;
        JsonReader from = m_top.object("loss_origin");
        origin.kind = static_cast<LossOrigin::Kind>(choice(from, "kind", kLossOrigins));
        from.each("terms", [&](JsonReader &term) { origin.terms.push_back(term.asText()); });
        return origin;
    }

    TensorId tensorNamed(JsonReader &from, const std::string &key, const std::string &wanted)
    {
        const auto found = m_ids.find(wanted);
        if (found != m_ids.end())
            return found->second;
        from.fail(key, "names tensor '" + wanted + "', which does not exist");
        return {};
    }
    TensorId tensor(JsonReader &from) { return tensorNamed(from, {}, from.asText()); }

    std::vector<TensorId> tensors(JsonReader &from, const char *key)
    {
        std::vector<TensorId> ids;
        from.list(key, [&](JsonReader &entry) { ids.push_back(entry.value().is_null() ? TensorId{} : tensor(entry)); });
        return ids;
    }

    void readOp(JsonReader &from)
    {
        std::string type = from.text("type");
        std::string opName = from.text("name");
        std::string scope = from.text("scope", std::string());
        Attributes attributes;
        if (from.has("attributes"))
            from.object("attributes").each([&](JsonReader &entry) { attributes[entry.name()] = attributeOf(entry); });
        std::vector<TensorId> inputs = tensors(from, "inputs");
        std::vector<TensorId> outputs = tensors(from, "outputs");
        if (!from.failed())
            m_builder.addOp(std::move(type), std::move(opName), std::move(scope), std::move(inputs), std::move(outputs),
                            std::move(attributes));
    }

    /// Shapes and types in the file must equal the inferred ones.
    [[nodiscard]] Status agrees(const Graph &graph) const
    {
        for (std::size_t i = 0; i < m_declared.size(); ++i) {
            const Tensor &tensor = graph.tensors()[i];
            if (m_declared[i].shape != tensor.shape)
                return badInput(fmt::format("field \"tensors[{}].shape\": is {} for '{}', but its operator makes {}; "
                                            "correct it",
                                            i, m_declared[i].shape.text(), tensor.name, tensor.shape.text()));
            if (m_declared[i].type != tensor.type)
                return badInput(fmt::format("field \"tensors[{}].type\": is {} for '{}', but its operator makes {}; "
                                            "correct it",
                                            i, name(m_declared[i].type), tensor.name, name(tensor.type)));
        }
        return {};
    }

    JsonReader m_top;
    GraphBuilder m_builder;
    std::vector<TensorInfo> m_declared; ///< of the tensors, in the document's order
    std::unordered_map<std::string, TensorId> m_ids;
};

} // namespace

std::string toJson(const Graph &graph, std::int64_t inlineLimit)
{
    Json json{{"schema", kSchema}, {"name", graph.name()}};
    json["tensors"] = Json::array();
    for (const Tensor &tensor : graph.tensors())
        json["tensors"].push_back(tensorToJson(tensor, inlineLimit));
    json["ops"] = Json::array();
    for (const Op &op : graph.ops())
        json["ops"].push_back(opToJson(graph, op));
    json["outputs"] = Json::array();
    for (const TensorId output : graph.outputs())
        json["outputs"].push_back(graph.tensor(output).name);
    json["loss"] = graph.loss().valid() ? Json(graph.tensor(graph.loss()).name) : Json(nullptr);
    if (const LossOrigin &origin = graph.lossOrigin(); origin.kind != LossOrigin::Kind::Model)
        json["loss_origin"] =
            Json{{"kind", kLossOrigins[static_cast<std::size_t>(origin.kind)]}, {"terms", origin.terms}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Graph> graphFromJson(std::string_view text)
{
    const Result<nlohmann::json> document = parseJson(text);
    if (!document)
        return document.error();
    return Reader(*document).read(text);
}

} // namespace planloom::graph
