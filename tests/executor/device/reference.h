// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

// A second, slow and plain implementation of the operator vocabulary in double precision. It shares no code with the
// kernels and is written for being read: element by element, as the definitions say.
namespace planloom::reference {

using Dims = std::vector<std::int64_t>;

struct Array {
    Dims dims;
    std::vector<double> values;
    bool present = true;

    Array() = default;
    explicit Array(Dims d) : dims(std::move(d)), values(static_cast<std::size_t>(count(dims)), 0.0) {}

    static std::int64_t count(const Dims &dims)
    {
        std::int64_t n = 1;
        for (const auto d : dims)
            n *= d;
        return n;
    }
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(values.size()); }
    double &operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
    double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }

    /// The position of @p index, whose leading dimensions this array may lack and whose others it may repeat.
    [[nodiscard]] std::int64_t position(const Dims &index) const
    {
        const std::size_t missing = index.size() - dims.size();
        std::int64_t at = 0;
        for (std::size_t d = 0; d < dims.size(); ++d)
            at = at * dims[d] + (dims[d] == 1 ? 0 : index[missing + d]);
        return at;
    }
    [[nodiscard]] double at(const Dims &index) const { return values[static_cast<std::size_t>(position(index))]; }
    double &at(const Dims &index) { return values[static_cast<std::size_t>(position(index))]; }
};

/// Calls f(index) for every index of @p dims in row-major order.
template <class F>
void forEach(const Dims &dims, F f)
{
    const std::int64_t n = Array::count(dims);
    Dims index(dims.size(), 0);
    for (std::int64_t i = 0; i < n; ++i) {
        f(const_cast<const Dims &>(index));
        for (std::size_t d = dims.size(); d-- > 0;) {
            if (++index[d] < dims[d])
                break;
            index[d] = 0;
        }
    }
}

struct Call {
    const graph::Op &op;
    const std::vector<Array> &in;
    std::vector<Array> &out; ///< sized by shape inference, zero

    [[nodiscard]] std::size_t axis(std::int64_t fallback, std::size_t rank) const
    {
        const std::int64_t a = op.integer("axis", fallback);
        return static_cast<std::size_t>(a < 0 ? a + static_cast<std::int64_t>(rank) : a);
    }
    [[nodiscard]] bool has(std::size_t i) const { return i < in.size() && in[i].present; }
    [[nodiscard]] bool makes(std::size_t i) const { return i < out.size() && out[i].present; }
};

using Function = std::function<void(const Call &)>;
using Table = std::map<std::string, Function, std::less<>>;

void addElementwise(Table &table);
void addLinear(Table &table);
void addNormalisation(Table &table);
void addShapes(Table &table);
void addReductions(Table &table);
void addIndexing(Table &table);
void addRecurrent(Table &table);
void addScatter(Table &table);

inline const Table &table()
{
    static const Table kTable = [] {
        Table t;
        addElementwise(t);
        addLinear(t);
        addNormalisation(t);
        addShapes(t);
        addReductions(t);
        addIndexing(t);
        addRecurrent(t);
        addScatter(t);
        return t;
    }();
    return kTable;
}

} // namespace planloom::reference
