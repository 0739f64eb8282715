// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/repeats.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace planloom::ui {
namespace {

constexpr std::string_view kScopeDigits = "0123456789";

std::string_view lastScopePart(std::string_view path) { return path.substr(path.rfind('/') + 1); } // npos + 1 is 0

/// A hash that grows by one value after the other.
class StructureHash {
public:
    void add(std::uint64_t value) { m_value = (m_value ^ value) * 0x9E3779B97F4A7C15ULL + (m_value >> 29); }
    void add(std::string_view text) { add(std::hash<std::string_view>{}(text)); }
    template <class T>
    void addAll(const std::vector<T> &values)
    {
        add(values.size());
        for (const T &value : values)
            add(std::hash<T>{}(value));
    }
    [[nodiscard]] std::uint64_t value() const { return m_value; }

private:
    std::uint64_t m_value = 0xCBF29CE484222325ULL;
};

void addAttribute(StructureHash &hash, const graph::Attribute &attribute)
{
    hash.add(attribute.index());
    std::visit(
        [&hash](const auto &value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string>)
                hash.add(std::string_view(value));
            else if constexpr (std::is_arithmetic_v<T>)
                hash.add(std::hash<T>{}(value));
            else
                hash.addAll(value);
        },
        attribute);
}

void addTensor(StructureHash &hash, const graph::Tensor &tensor)
{
    // The first block reads the model's input, the others what the one before makes.
    const auto role = tensor.role == graph::TensorRole::Input ? graph::TensorRole::Activation : tensor.role;
    hash.add(static_cast<std::uint64_t>(tensor.type) << 8 | static_cast<std::uint64_t>(role));
    hash.add(tensor.shape.rank());
    for (const graph::Dim &dim : tensor.shape.dims())
        hash.add(static_cast<std::uint64_t>(dim.size) << 1 | (dim.batch ? 1 : 0));
}

/// What an operator is, whatever its name and place.
std::uint64_t operatorContent(const graph::Graph &graph, const graph::Op &op)
{
    constexpr std::string_view kRandomKey = "key"; // names the operator that draws the mask
    StructureHash hash;
    hash.add(std::string_view(op.type.name()));
    for (const auto &[name, value] : op.attributes) {
        if (name == kRandomKey)
            continue;
        hash.add(std::string_view(name));
        addAttribute(hash, value);
    }
    for (const auto *tensors : {&op.inputs, &op.outputs}) {
        hash.add(tensors->size());
        for (const TensorId id : *tensors) {
            if (id.valid())
                addTensor(hash, graph.tensor(id));
        }
    }
    return hash.value();
}

/// A scope while its operators are gone through.
struct ScopeSeen {
    std::string path;
    std::size_t first = 0; ///< operators, of the graph
    std::size_t last = 0;
    std::size_t count = 0;
    StructureHash hash;
    [[nodiscard]] bool contiguous() const { return count == last - first + 1; }
};

/// Adds operator @p op to @p scope: what it is, where it is in there, and which operators of the scope it reads.
void addToScope(ScopeSeen &scope, const graph::Graph &graph, const graph::Op &op, std::uint64_t content)
{
    const std::size_t at = op.id.index();
    if (scope.count++ == 0)
        scope.first = at;
    scope.last = at;
    scope.hash.add(content);
    scope.hash.add(std::string_view(op.scope).substr(scope.path.size()));
    for (const TensorId input : op.inputs) {
        const OpId producer = input.valid() ? graph.tensor(input).producer : OpId();
        const bool inside = producer.valid() && producer.index() >= scope.first;
        scope.hash.add(inside ? at - producer.index() : 0);
    }
}

std::optional<std::int64_t> trailingNumber(std::string_view text)
{
    const std::size_t other = text.find_last_not_of(kScopeDigits);
    const std::string_view digits = text.substr(other == std::string_view::npos ? 0 : other + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc{} && !digits.empty() ? std::optional(number) : std::nullopt;
}

bool numberedAfter(std::string_view before, std::string_view after)
{
    const auto a = trailingNumber(before);
    const auto b = trailingNumber(after);
    const auto stem = [](std::string_view text) { return text.substr(0, text.find_last_not_of(kScopeDigits) + 1); };
    return a && b && *b == *a + 1 && stem(before) == stem(after);
}

bool readsFrom(const graph::Graph &graph, const ScopeSeen &reader, const ScopeSeen &maker)
{
    for (std::size_t at = reader.first; at <= reader.last; ++at) {
        for (const TensorId input : graph.ops()[at].inputs) {
            const OpId producer = input.valid() ? graph.tensor(input).producer : OpId();
            if (producer.valid() && producer.index() >= maker.first && producer.index() <= maker.last)
                return true;
        }
    }
    return false;
}

bool sameBlocks(const graph::Graph &graph, const ScopeSeen &before, const ScopeSeen &after)
{
    return before.hash.value() == after.hash.value() && before.count == after.count && after.first == before.last + 1
        && before.contiguous() && after.contiguous()
        && (numberedAfter(before.path, after.path) || readsFrom(graph, after, before));
}

Repeat repeatOf(const std::vector<ScopeSeen> &scopes, const std::vector<std::size_t> &run)
{
    Repeat repeat;
    for (const std::size_t scope : run)
        repeat.scopes.push_back(scopes[scope].path);
    const std::string &first = repeat.scopes.front();
    const std::string &last = repeat.scopes.back();
    repeat.key = first + " … " + std::string(lastScopePart(last));
    repeat.title = shortName(first) + " … " + shortName(last);
    return repeat;
}

} // namespace

std::vector<std::string> scopePaths(const std::string &scope)
{
    std::vector<std::string> paths;
    for (std::size_t end = 0; end != std::string::npos && !scope.empty();) {
        end = scope.find('/', end ? end + 1 : 0);
        paths.push_back(scope.substr(0, end));
    }
    return paths;
}

std::string shortName(const std::string &path)
{
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos)
        return path;
    std::string last = path.substr(slash + 1);
    if (last.find_first_not_of(kScopeDigits) != std::string::npos)
        return last;
    return std::string(lastScopePart(std::string_view(path).substr(0, slash))) + "." + last;
}

std::vector<Repeat> repeatsOf(const graph::Graph &graph)
{
    std::vector<ScopeSeen> scopes; // in the order of their first operators: outer before inner
    std::unordered_map<std::string, std::size_t> places;
    std::map<std::string, std::vector<std::size_t>> children; // by the scope around
    for (const graph::Op &op : graph.ops()) {
        const std::uint64_t content = operatorContent(graph, op);
        std::string around;
        for (std::string &path : scopePaths(op.scope)) {
            const auto [place, isNew] = places.emplace(path, scopes.size());
            if (isNew) {
                scopes.emplace_back().path = path;
                children[around].push_back(place->second);
            }
            addToScope(scopes[place->second], graph, op, content);
            around = std::move(path);
        }
    }
    std::vector<Repeat> found;
    for (const auto &[around, inside] : children) {
        std::vector<std::size_t> run;
        const auto end = [&] {
            if (run.size() >= kFewestRepeats)
                found.push_back(repeatOf(scopes, run));
            run.clear();
        };
        for (const std::size_t scope : inside) {
            if (!run.empty() && !sameBlocks(graph, scopes[run.back()], scopes[scope]))
                end();
            run.push_back(scope);
        }
        end();
    }
    return found;
}

} // namespace planloom::ui
