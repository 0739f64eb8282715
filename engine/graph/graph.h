// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/graph/operators/traits.h"
#include "engine/graph/shape.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace planloom::graph {

/// Role of a tensor in training.
enum class TensorRole : std::uint8_t {
    Input,      ///< fed for each batch: tokens, pixels, labels
    Parameter,  ///< trained
    State,      ///< kept between steps but not trained: running means
    Constant,   ///< fixed; its value is in Initializer::data
    Activation, ///< made by an operator
};

/// How a tensor's elements lie in memory. Everything outside kernels is row-major; a rewrite that chooses another
/// layout puts Reorder operators at the borders.
enum class Layout : std::uint8_t {
    RowMajor,
    Blocked, ///< (N, C, H, W) as N, C/b, H, W, b; C is a multiple of 16, b is 16 or 8, as the device's vectors are long
};

/// Where the first value of a parameter, state or constant comes from. Random values are drawn from a generator seeded
/// by (run seed, tensor name), so that every layout of ranks starts from the same weights.
struct Initializer {
    enum class Kind : std::uint8_t { None, Zeros, Ones, Normal, Uniform, Data, File };
    Kind kind = Kind::None;
    double a = 0;                                       ///< mean, or lower end
    double b = 0;                                       ///< standard deviation, or upper end
    std::shared_ptr<const std::vector<std::byte>> data; ///< Data: the elements, row-major, little-endian
    std::string file;                                   ///< File: path beneath the model's folder
    std::int64_t offset = 0;                            ///< File: where in it
};

/// What an operator reads or writes.
struct Tensor {
    TensorId id;
    std::string name;
    DType type = DType::F32;
    Shape shape;
    Layout layout = Layout::RowMajor;
    TensorRole role = TensorRole::Activation;
    OpId producer; ///< none unless role is Activation
    Initializer init;

    [[nodiscard]] Bytes bytes(std::int64_t samples = 1) const { return Bytes(shape.elements(samples) * sizeOf(type)); }
};

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

struct Operator;

/// The name of an operator type, with its row in the registry (operators/operators.h), which is looked up once, when
/// the value is made. An ONNX operator name where ONNX has the operator; Planloom's own (fused, gradient, sharding)
/// types stand beside them in the registry. An unknown name is kept: it has no row and default traits. Reads like the
/// text of its name.
class OpType {
public:
    OpType(std::string name = {});                          // NOLINT(google-explicit-constructor)
    OpType(const char *name) : OpType(std::string(name)) {} // NOLINT(google-explicit-constructor)

    [[nodiscard]] const std::string &name() const { return m_name; }
    operator const std::string &() const { return m_name; } // NOLINT(google-explicit-constructor)
    operator std::string_view() const { return m_name; }    // NOLINT(google-explicit-constructor)

    /// nullptr if the type is unknown.
    [[nodiscard]] const Operator *row() const { return m_row; }
    [[nodiscard]] const OpTraits &traits() const { return *m_traits; }

    friend bool operator==(const OpType &a, const OpType &b) { return a.m_name == b.m_name; }
    friend bool operator==(const OpType &a, const std::string &b) { return a.m_name == b; }
    friend bool operator==(const OpType &a, std::string_view b) { return a.m_name == b; }
    friend bool operator==(const OpType &a, const char *b) { return a.m_name == b; }

private:
    std::string m_name;
    const Operator *m_row = nullptr;
    const OpTraits *m_traits;
};

inline std::string operator+(const OpType &a, const char *b) { return a.name() + b; }
inline std::string operator+(std::string a, const OpType &b) { return std::move(a) + b.name(); }
inline std::string operator+(const char *a, const OpType &b) { return a + b.name(); }

/// An operator. One of an unknown type has shapes only if the file gave them, and cannot be trained.
struct Op {
    OpId id;
    OpType type;
    std::string name;             ///< unique
    std::string scope;            ///< module path, "/"-separated: "h/3/attn"; empty at the top
    std::vector<TensorId> inputs; ///< an invalid id is an optional input left out
    std::vector<TensorId> outputs;
    Attributes attributes;

    [[nodiscard]] const OpTraits &traits() const { return type.traits(); }
    [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t fallback = 0) const;
    [[nodiscard]] double number(std::string_view key, double fallback = 0) const;
    [[nodiscard]] std::string text(std::string_view key, std::string fallback = {}) const;
    [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key,
                                                     std::vector<std::int64_t> fallback = {}) const;
    [[nodiscard]] std::vector<double> numbers(std::string_view key) const; ///< empty where it is left out
    [[nodiscard]] bool has(std::string_view key) const { return attributes.find(key) != attributes.end(); }
};

/// Who decided what training minimises.
struct LossOrigin {
    enum class Kind : std::uint8_t {
        Model,  ///< the model computes it
        Added,  ///< added by an importer, for what the model ends in
        Chosen, ///< added as the user said
    };
    Kind kind = Kind::Model;
    std::vector<std::string> terms = {}; ///< unless Model: what was added, as `--loss` of the command line has it
};

/// A neural network as a directed acyclic graph of operators, in topological order. Immutable once built; made by
/// GraphBuilder only, which checks it. Copyable; hand it along as shared_ptr<const Graph>.
class Graph {
public:
    [[nodiscard]] const std::string &name() const { return m_name; }
    [[nodiscard]] std::span<const Op> ops() const { return m_ops; }
    [[nodiscard]] std::span<const Tensor> tensors() const { return m_tensors; }
    [[nodiscard]] const Op &op(OpId id) const { return m_ops[id.index()]; }
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_tensors[id.index()]; }
    /// Operators that read @p id, in order, each once.
    [[nodiscard]] std::span<const OpId> consumers(TensorId id) const { return m_consumers[id.index()]; }
    [[nodiscard]] std::span<const TensorId> outputs() const { return m_outputs; }
    /// The scalar that training minimises (mean over the samples), or none.
    [[nodiscard]] TensorId loss() const { return m_loss; }
    [[nodiscard]] const LossOrigin &lossOrigin() const { return m_lossOrigin; }
    /// By name; invalid if there is none.
    [[nodiscard]] TensorId find(std::string_view tensorName) const;
    [[nodiscard]] std::vector<TensorId> withRole(TensorRole role) const;
    [[nodiscard]] Bytes parameterBytes() const;
    [[nodiscard]] std::int64_t parameterCount() const;

private:
    friend class GraphBuilder;
    std::string m_name;
    std::vector<Op> m_ops;
    std::vector<Tensor> m_tensors;
    std::vector<std::vector<OpId>> m_consumers;
    std::vector<TensorId> m_outputs;
    std::vector<TensorId> m_byName; ///< all tensors, sorted by name
    TensorId m_loss;
    LossOrigin m_lossOrigin;
};

/// True if the graph stands for a layer profile: operators that carry measured times and no shapes to compute with.
bool isLayerProfile(const Graph &graph);

/// Makes a Graph. Operators may be added in any order; build() sorts them (stably: operators that are in order stay
/// where they are) and infers shapes. Inferred types and shapes replace declared ones; a declared shape stays where the
/// operator's type is unknown or opaque (ProfiledLayer), or where an input's shape is not known. Outputs that the
/// operator's type has beyond the ones that were added (a normalisation's saved statistics) are appended, named
/// "OPERATOR:1", "OPERATOR:2". Not thread-safe.
class GraphBuilder {
public:
    explicit GraphBuilder(std::string name);

    TensorId input(std::string name, DType type, Shape shape);
    TensorId parameter(std::string name, Shape shape, Initializer init, DType type = DType::F32);
    TensorId state(std::string name, Shape shape, Initializer init, DType type = DType::F32);
    TensorId constant(std::string name, DType type, Shape shape, std::vector<std::byte> data);
    TensorId constantInts(std::string name, const std::vector<std::int64_t> &values);         ///< 1-d int64
    TensorId constantFloats(std::string name, std::vector<std::int64_t> sizes, double value); ///< float32, all equal

    /// Scopes nest: operators added between push and pop lie in it.
    void pushScope(const std::string &name);
    void popScope();

    /// Adds an operator with one output, named after it; its shape is inferred at build().
    TensorId add(const OpType &type, std::vector<TensorId> inputs, Attributes attributes = {}, std::string name = {});
    /// The same with @p outputs outputs, the first named after it, the others with ":1", ":2" behind.
    std::vector<TensorId> addMany(const OpType &type, std::vector<TensorId> inputs, std::size_t outputs,
                                  Attributes attributes = {}, std::string name = {});
    /// Adds an operator with outputs declared before by activation(). Used by importers and differentiation.
    OpId addOp(OpType type, std::string name, std::string scope, std::vector<TensorId> inputs,
               std::vector<TensorId> outputs, Attributes attributes);
    /// Declares an activation whose producer is added later. Its shape may be left for inference.
    TensorId activation(std::string name, DType type = DType::F32, Shape shape = {}, bool shapeKnown = false);
    /// Adds a tensor of another graph: its name, type, shape, role and first value. An activation's producer is added
    /// later.
    TensorId copy(const Tensor &tensor);

    void rename(TensorId id, std::string name);
    void setLayout(TensorId id, Layout layout) { m_graph.m_tensors[id.index()].layout = layout; }
    void output(TensorId id);
    void loss(TensorId id, LossOrigin origin = {});
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_graph.m_tensors[id.index()]; }

    /// Errors (BadInput): duplicate names, a cycle (named), a tensor without producer, an operator whose inputs do not
    /// fit (named, with the shapes), an empty graph. Cost: O(operators log operators + edges).
    Result<Graph> build() &&;

private:
    TensorId addTensor(std::string name, DType type, Shape shape, TensorRole role, Initializer init);
    std::string freshName(const std::string &stem);
    Status checkTensors() const;
    Status linkProducers();
    Status sort();
    Status inferShapes();
    Status inferOp(Op &op);
    void appendOutputs(Op &op, std::size_t count);
    void indexTensors();
    Graph m_graph;
    std::vector<bool> m_shapeKnown;
    std::string m_scope;
    std::vector<std::size_t> m_scopeLengths; ///< of the names pushed, innermost last
    std::map<std::string, int> m_used;       ///< operator names given out by freshName, with the next number of each
};

/// Native JSON (`planloom.graph/1`, resources/docs/formats/graph.md), without the data of parameters larger than
/// @p inlineLimit bytes (constants are always written). graphFromJson checks as build() does, and that the file's
/// shapes equal the inferred ones; safe against hostile input: sizes, nesting, names and references are checked, and an
/// error (BadInput) names the field, such as ops[3].inputs[1].
std::string toJson(const Graph &graph, std::int64_t inlineLimit = 4096);
Result<Graph> graphFromJson(std::string_view text);

} // namespace planloom::graph
