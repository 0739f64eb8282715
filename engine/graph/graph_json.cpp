// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/base64.h"
#include "engine/graph/graph.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace planloom::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kSchema = "planloom.graph/1";
constexpr std::array kRoles{"input", "parameter", "state", "constant", "activation"};
constexpr std::array kInitializers{"none", "zeros", "ones", "normal", "uniform", "data", "file"};

// Bounds on what a file may hold: far above any real model, low enough that a hostile one cannot exhaust memory by a number.
constexpr std::size_t kMostEntries = 4'000'000;
constexpr std::size_t kMostRank = 16;
constexpr int kMostNesting = 24;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::size_t kLongestName = 4096;

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
        if (init.data && (tensor.role == TensorRole::Constant || static_cast<std::int64_t>(init.data->size()) <= inlineLimit))
            json["data"] = toBase64(*init.data);
        break;
    case Initializer::Kind::File:
        json["file"] = init.file;
        json["offset"] = init.offset;
        break;
    default:
        break;
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
    Json json{{"type", op.type}, {"name", op.name}};
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

/// What is wrong at which field. Thrown inside this file only: it saves a check after each of some fifty field accesses.
struct FieldError {
    std::string where;
    std::string what;
};

std::string at(const std::string &list, std::size_t index)
{
    return list + "[" + std::to_string(index) + "]";
}

const Json &member(const Json &json, const char *key, const std::string &where)
{
    if (!json.is_object())
        throw FieldError{where, "is not an object"};
    const auto found = json.find(key);
    if (found == json.end())
        throw FieldError{where + "." + key, "is missing"};
    return *found;
}

const Json &list(const Json &json, const std::string &where)
{
    if (!json.is_array())
        throw FieldError{where, "is not a list"};
    if (json.size() > kMostEntries)
        throw FieldError{where, "has too many entries"};
    return json;
}

std::string text(const Json &json, const std::string &where)
{
    if (!json.is_string())
        throw FieldError{where, "is not a text"};
    const auto &value = json.get_ref<const std::string &>();
    if (value.size() > kLongestName)
        throw FieldError{where, "is too long a text"};
    return value;
}

std::int64_t integer(const Json &json, const std::string &where)
{
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()))
        throw FieldError{where, "is not an integer of 64 bits"};
    return json.get<std::int64_t>();
}

double number(const Json &json, const std::string &where)
{
    if (json.is_number())
        return json.get<double>();
    const std::string word = json.is_string() ? json.get<std::string>() : std::string();
    if (word == "inf")
        return std::numeric_limits<double>::infinity();
    if (word == "-inf")
        return -std::numeric_limits<double>::infinity();
    if (word == "nan")
        return std::numeric_limits<double>::quiet_NaN();
    throw FieldError{where, "is not a number"};
}

template <class Names>
std::size_t choice(const Names &names, const std::string &value, const std::string &where)
{
    std::string known;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (value == names[i])
            return i;
        known += std::string(known.empty() ? "" : ", ") + names[i];
    }
    throw FieldError{where, "is '" + value + "'; one of " + known + " is expected"};
}

Dim dimFromJson(const Json &json, const std::string &where)
{
    Dim dim;
    if (json.is_string()) {
        const std::string word = text(json, where);
        const std::string digits = word.substr(0, word.empty() ? 0 : word.size() - 1);
        const bool numeric = digits.size() <= 13 && digits.find_first_not_of("0123456789") == std::string::npos;
        if (word.empty() || word.back() != 'N' || !numeric)
            throw FieldError{where, "is '" + word + "'; a size such as 768, \"N\" or \"128N\" is expected"};
        dim = {digits.empty() ? 1 : std::stoll(digits), true};
    } else {
        dim = {integer(json, where), false};
    }
    if (dim.size < 0 || dim.size > kMostSize)
        throw FieldError{where, "is out of range"};
    return dim;
}

Shape shapeFromJson(const Json &json, const std::string &where)
{
    if (list(json, where).size() > kMostRank)
        throw FieldError{where, "has more than " + std::to_string(kMostRank) + " dimensions"};
    std::vector<Dim> dims;
    for (std::size_t i = 0; i < json.size(); ++i)
        dims.push_back(dimFromJson(json[i], at(where, i)));
    return Shape(std::move(dims));
}

Initializer initializerFromJson(const Json &json, const std::string &where)
{
    Initializer init;
    init.kind = static_cast<Initializer::Kind>(choice(kInitializers, text(member(json, "kind", where), where + ".kind"), where + ".kind"));
    if (init.kind == Initializer::Kind::Normal || init.kind == Initializer::Kind::Uniform) {
        init.a = number(member(json, "a", where), where + ".a");
        init.b = number(member(json, "b", where), where + ".b");
    }
    if (init.kind == Initializer::Kind::File) {
        init.file = text(member(json, "file", where), where + ".file");
        init.offset = integer(member(json, "offset", where), where + ".offset");
        if (init.offset < 0)
            throw FieldError{where + ".offset", "is negative"};
    }
    if (init.kind != Initializer::Kind::Data)
        return init;
    if (!json.contains("data"))
        return {}; // written without its large data: the value is unknown, the shape is not
    const Json &data = json.at("data");
    std::vector<std::byte> bytes;
    if (!data.is_string() || !fromBase64(data.get_ref<const std::string &>(), bytes))
        throw FieldError{where + ".data", "is not base64"};
    init.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return init;
}

Attribute attributeFromJson(const Json &json, const std::string &where)
{
    if (json.is_number_integer())
        return integer(json, where);
    if (json.is_number_float())
        return json.get<double>();
    if (json.is_string())
        return json.get<std::string>();
    if (json.is_array()) {
        std::vector<std::int64_t> values;
        for (std::size_t i = 0; i < list(json, where).size(); ++i)
            values.push_back(integer(json[i], at(where, i)));
        return values;
    }
    if (json.is_object() && json.contains("float"))
        return number(json.at("float"), where + ".float");
    const Json &floats = list(member(json, "floats", where), where + ".floats");
    std::vector<double> values;
    for (std::size_t i = 0; i < floats.size(); ++i)
        values.push_back(number(floats[i], at(where + ".floats", i)));
    return values;
}

/// Fills a GraphBuilder from the document.
class Reader {
public:
    explicit Reader(const Json &json) : m_json(json), m_builder(text(member(json, "name", "graph"), "name")) {}

    GraphBuilder read()
    {
        readTensors(list(member(m_json, "tensors", "graph"), "tensors"));
        readOps(list(member(m_json, "ops", "graph"), "ops"));
        if (const auto outputs = m_json.find("outputs"); outputs != m_json.end())
            for (std::size_t i = 0; i < list(*outputs, "outputs").size(); ++i)
                m_builder.output(tensor((*outputs)[i], at("outputs", i)));
        if (const auto loss = m_json.find("loss"); loss != m_json.end() && !loss->is_null())
            m_builder.loss(tensor(*loss, "loss"));
        return std::move(m_builder);
    }

private:
    void readTensors(const Json &tensors)
    {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::string where = at("tensors", i);
            std::string tensorName = text(member(tensors[i], "name", where), where + ".name");
            if (m_ids.count(tensorName) != 0)
                throw FieldError{where + ".name", "repeats '" + tensorName + "'"};
            const TensorId id = addTensor(tensors[i], tensorName, where);
            m_ids.emplace(std::move(tensorName), id);
        }
    }

    TensorId addTensor(const Json &json, const std::string &tensorName, const std::string &where)
    {
        DType type{};
        const std::string typeName = text(member(json, "type", where), where + ".type");
        if (!fromName(typeName, type))
            throw FieldError{where + ".type", "is '" + typeName + "', which is not a data type"};
        Shape shape = shapeFromJson(member(json, "shape", where), where + ".shape");
        const auto role = static_cast<TensorRole>(choice(kRoles, text(member(json, "role", where), where + ".role"), where + ".role"));
        Initializer init;
        if (const auto found = json.find("init"); found != json.end())
            init = initializerFromJson(*found, where + ".init");
        switch (role) {
        case TensorRole::Input:
            return m_builder.input(tensorName, type, std::move(shape));
        case TensorRole::Parameter:
            return m_builder.parameter(tensorName, std::move(shape), std::move(init), type);
        case TensorRole::State:
            return m_builder.state(tensorName, std::move(shape), std::move(init), type);
        case TensorRole::Constant:
            if (init.kind != Initializer::Kind::Data)
                throw FieldError{where + ".init", "must give the constant's data"};
            return m_builder.constant(tensorName, type, std::move(shape), *init.data);
        case TensorRole::Activation:
            break;
        }
        return m_builder.activation(tensorName, type, std::move(shape), true);
    }

    TensorId tensor(const Json &json, const std::string &where) const
    {
        const std::string wanted = text(json, where);
        const auto found = m_ids.find(wanted);
        if (found == m_ids.end())
            throw FieldError{where, "names tensor '" + wanted + "', which does not exist"};
        return found->second;
    }

    std::vector<TensorId> tensors(const Json &json, const std::string &where) const
    {
        std::vector<TensorId> ids;
        for (std::size_t i = 0; i < list(json, where).size(); ++i)
            ids.push_back(json[i].is_null() ? TensorId{} : tensor(json[i], at(where, i)));
        return ids;
    }

    void readOps(const Json &ops)
    {
        for (std::size_t i = 0; i < ops.size(); ++i) {
            const std::string where = at("ops", i);
            const Json &json = ops[i];
            std::string type = text(member(json, "type", where), where + ".type");
            std::string opName = text(member(json, "name", where), where + ".name");
            const auto scope = json.find("scope");
            Attributes attributes;
            if (const auto found = json.find("attributes"); found != json.end()) {
                if (!found->is_object())
                    throw FieldError{where + ".attributes", "is not an object"};
                for (const auto &[key, value] : found->items())
                    attributes[key] = attributeFromJson(value, where + ".attributes." + key);
            }
            m_builder.addOp(std::move(type), std::move(opName), scope == json.end() ? std::string() : text(*scope, where + ".scope"),
                            tensors(member(json, "inputs", where), where + ".inputs"),
                            tensors(member(json, "outputs", where), where + ".outputs"), std::move(attributes));
        }
    }

    const Json &m_json;
    GraphBuilder m_builder;
    std::unordered_map<std::string, TensorId> m_ids;
};

/// Nested lists of a hostile file could exhaust the memory of whatever walks them.
bool nestsTooDeep(std::string_view json)
{
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > kMostNesting)
            return true;
        else if (!quoted && (c == ']' || c == '}'))
            --depth;
    }
    return false;
}

/// Shapes and types in the file must be what inference says of the operators.
Status agrees(const Graph &graph, const Json &tensors)
{
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Tensor &tensor = graph.tensors()[i];
        const Shape declared = shapeFromJson(tensors[i].at("shape"), "shape");
        if (declared != tensor.shape)
            return badInput(at("tensors", i) + ".shape says " + declared.text() + " for '" + tensor.name + "', but its operator makes " +
                            tensor.shape.text() + "; correct it");
        if (tensors[i].at("type") != name(tensor.type))
            return badInput(at("tensors", i) + ".type is not what the operator of '" + tensor.name + "' makes (" + name(tensor.type) + "); correct it");
    }
    return {};
}

Result<Graph> readDocument(std::string_view document)
{
    const Json json = Json::parse(document);
    const std::string schema = text(member(json, "schema", "graph"), "schema");
    if (schema != kSchema)
        return badInput("schema is '" + schema + "'; this version reads " + kSchema);
    Result<Graph> graph = Reader(json).read().build();
    if (!graph)
        return graph;
    if (const Status same = agrees(*graph, json.at("tensors")); !same)
        return same.error();
    return graph;
}

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
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Graph> graphFromJson(std::string_view document)
{
    if (nestsTooDeep(document))
        return badInput("the graph's JSON nests deeper than " + std::to_string(kMostNesting) + " levels; it is not a planloom.graph/1 file");
    try {
        return readDocument(document);
    } catch (const FieldError &error) {
        return badInput(error.where + " " + error.what + "; see the format planloom.graph/1");
    } catch (const Json::parse_error &error) {
        return badInput("not JSON at byte " + std::to_string(error.byte) + "; export the graph again");
    } catch (const Json::exception &error) {
        return badInput(std::string("malformed graph: ") + error.what() + "; see the format planloom.graph/1");
    }
}

} // namespace planloom::graph
