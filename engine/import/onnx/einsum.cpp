// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/resample.h"

#include <algorithm>
#include <optional>

namespace planloom::import {
namespace {

using graph::Dim;
using graph::DType;
using Ints = std::vector<std::int64_t>;
using Labels = std::vector<int>; ///< letters; negative: places of the ellipsis, counted from its end

struct Term {
    std::string name;
    Labels labels;
    std::vector<Dim> dims;
};

bool holds(const Labels &labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

/// "ab...c" for a tensor of @p rank, or of any with @p ellipsis dimensions for its dots. Nothing if it is not of that
/// form.
std::optional<Labels> parse(const std::string &text, std::int64_t rank, std::int64_t ellipsis)
{
    const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return c != '.'; });
    const std::int64_t dots = rank >= 0 ? rank - letters : ellipsis;
    Labels labels;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '.') {
            labels.push_back(text[i]);
            continue;
        }
        if (text.compare(i, 3, "...") != 0)
            return {};
        i += 2;
        for (std::int64_t k = dots; k > 0; --k)
            labels.push_back(static_cast<int>(-k));
    }
    if (rank >= 0 && static_cast<std::int64_t>(labels.size()) != rank)
        return {};
    return labels;
}

struct Equation {
    std::vector<Term> terms;
    Labels result;
};

/// Without "->", the output has the ellipsis and, in order, the letters that occur once.
Labels implied(const std::vector<Term> &terms)
{
    std::map<int, int> counts;
    for (const Term &term : terms)
        for (const int label : term.labels)
            ++counts[label];
    Labels result;
    for (const auto &[label, count] : counts)
        if (label < 0 || count == 1)
            result.push_back(label);
    return result;
}

std::optional<Equation> read(const Steps &s)
{
    std::string text = s.text("equation");
    std::erase(text, ' ');
    const auto arrow = text.find("->");
    std::string left = text.substr(0, arrow) + ",";
    Equation equation;
    std::int64_t ellipsis = 0;
    for (std::size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
        const std::size_t i = equation.terms.size();
        if (!s.given(i))
            return {};
        const auto labels = parse(left.substr(0, comma), s.rank(i), 0);
        if (!labels)
            return {};
        ellipsis =
            std::max<std::int64_t>(ellipsis,
                                   std::count_if(labels->begin(), labels->end(), [](int label) { return label < 0; }));
        equation.terms.push_back({s.x(i), *labels, s.shape(i).dims()});
        left.erase(0, comma + 1);
    }
    if (equation.terms.size() != s.inputs())
        return {};
    if (arrow == std::string::npos) {
        equation.result = implied(equation.terms);
        return equation;
    }
    const auto labels = parse(text.substr(arrow + 2), -1, ellipsis);
    if (!labels)
        return {};
    equation.result = *labels;
    return equation;
}

void transpose(Steps &s, Term &term, const Labels &order)
{
    Ints perm;
    std::vector<Dim> dims;
    for (const int label : order) {
        const auto at = std::find(term.labels.begin(), term.labels.end(), label) - term.labels.begin();
        perm.push_back(at);
        dims.push_back(term.dims[static_cast<std::size_t>(at)]);
    }
    if (!std::is_sorted(perm.begin(), perm.end()))
        term.name = s.add("Transpose", {term.name}, {{"perm", perm}});
    term.labels = order;
    term.dims = std::move(dims);
}

/// A label that stands twice: the elements where both indices are equal.
bool diagonal(Steps &s, Term &term)
{
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
        const auto twin =
            std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.labels.end(), term.labels[i]);
        if (twin == term.labels.end())
            continue;
        const auto j = static_cast<std::size_t>(twin - term.labels.begin());
        const Dim dim = term.dims[i];
        if (dim.batch || dim != term.dims[j])
            return false;
        Ints perm;
        Term rest;
        for (std::size_t k = 0; k < term.labels.size(); ++k) {
            if (k == i || k == j)
                continue;
            perm.push_back(static_cast<std::int64_t>(k));
            rest.labels.push_back(term.labels[k]);
            rest.dims.push_back(term.dims[k]);
        }
        perm.insert(perm.end(), {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
        const std::string moved = s.add("Transpose", {term.name}, {{"perm", perm}});
        rest.dims.push_back({dim.size * dim.size, false});
        const std::string flat = s.reshape(moved, rest.dims);
        std::vector<double> places;
        for (std::int64_t k = 0; k < dim.size; ++k)
            places.push_back(static_cast<double>(k * (dim.size + 1)));
        rest.name = s.add("Gather", {flat, s.constant(DType::I64, {dim.size}, places)},
                          {{"axis", static_cast<std::int64_t>(rest.labels.size())}});
        rest.labels.push_back(term.labels[i]);
        rest.dims.back() = dim;
        term = std::move(rest);
        return diagonal(s, term);
    }
    return true;
}

/// Sums over the labels that nothing else has.
void sumOut(Steps &s, Term &term, const Labels &kept)
{
    Ints axes;
    Term rest{term.name, {}, {}};
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
        if (!holds(kept, term.labels[i])) {
            axes.push_back(static_cast<std::int64_t>(i));
            continue;
        }
        rest.labels.push_back(term.labels[i]);
        rest.dims.push_back(term.dims[i]);
    }
    if (axes.empty())
        return;
    rest.name = s.add("ReduceSum", {term.name}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
    term = std::move(rest);
}

/// Dimensions of size 1 that broadcast against others are taken out.
void dropOnes(Steps &s, Term &term, const std::vector<Term> &all)
{
    Ints axes;
    Term rest{term.name, {}, {}};
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
        const bool one = term.dims[i] == Dim{};
        const bool larger = std::any_of(all.begin(), all.end(), [&](const Term &other) {
            for (std::size_t k = 0; k < other.labels.size(); ++k)
                if (other.labels[k] == term.labels[i] && other.dims[k] != Dim{})
                    return true;
            return false;
        });
        if (one && larger) {
            axes.push_back(static_cast<std::int64_t>(i));
            continue;
        }
        rest.labels.push_back(term.labels[i]);
        rest.dims.push_back(term.dims[i]);
    }
    if (axes.empty())
        return;
    rest.name = s.add("Squeeze", {term.name}, {{"axes", axes}});
    term = std::move(rest);
}

Dim product(const std::vector<Dim> &dims, std::size_t first, std::size_t last)
{
    Dim all;
    for (std::size_t i = first; i < last; ++i)
        all = {all.size * dims[i].size, all.batch || dims[i].batch};
    return all;
}

/// The leading @p batch dimensions as they are, then two: the next @p rows together, and all others.
std::string asMatrices(Steps &s, const Term &term, std::size_t batch, std::size_t rows)
{
    std::vector<Dim> dims(term.dims.begin(), term.dims.begin() + static_cast<std::ptrdiff_t>(batch));
    dims.push_back(product(term.dims, batch, batch + rows));
    dims.push_back(product(term.dims, batch + rows, term.dims.size()));
    return dims == term.dims ? term.name : s.reshape(term.name, dims);
}

Term contract(Steps &s, Term a, Term b, const Labels &kept)
{
    Labels inA = kept;
    inA.insert(inA.end(), b.labels.begin(), b.labels.end());
    Labels inB = kept;
    inB.insert(inB.end(), a.labels.begin(), a.labels.end());
    sumOut(s, a, inA);
    sumOut(s, b, inB);
    Labels batch, summed, onlyA, onlyB;
    for (const int label : a.labels)
        (!holds(b.labels, label) ? onlyA : holds(kept, label) ? batch : summed).push_back(label);
    for (const int label : b.labels)
        if (!holds(a.labels, label))
            onlyB.push_back(label);
    const auto join = [](Labels first, const Labels &second, const Labels &third) {
        first.insert(first.end(), second.begin(), second.end());
        first.insert(first.end(), third.begin(), third.end());
        return first;
    };
    transpose(s, a, join(batch, onlyA, summed));
    transpose(s, b, join(batch, summed, onlyB));
    Term made{s.add("MatMul",
                    {asMatrices(s, a, batch.size(), onlyA.size()), asMatrices(s, b, batch.size(), summed.size())}),
              join(batch, onlyA, onlyB),
              {}};
    made.dims.assign(a.dims.begin(), a.dims.begin() + static_cast<std::ptrdiff_t>(batch.size() + onlyA.size()));
    made.dims.insert(made.dims.end(), b.dims.begin() + static_cast<std::ptrdiff_t>(batch.size() + summed.size()),
                     b.dims.end());
    made.name = s.reshape(made.name, made.dims);
    return made;
}

} // namespace

void einsum(Steps &s)
{
    auto equation = read(s);
    if (!equation)
        return;
    const bool single = s.typeOf() == DType::F32;
    for (Term &term : equation->terms) {
        if (!single)
            term.name = s.add("Cast", {term.name}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
        if (!diagonal(s, term))
            return;
    }
    const std::vector<Term> all = equation->terms;
    for (Term &term : equation->terms)
        dropOnes(s, term, all);
    Term made = equation->terms.front();
    for (std::size_t i = 1; i < equation->terms.size(); ++i) {
        Labels kept = equation->result;
        for (std::size_t k = i + 1; k < equation->terms.size(); ++k)
            kept.insert(kept.end(), equation->terms[k].labels.begin(), equation->terms[k].labels.end());
        made = contract(s, std::move(made), equation->terms[i], kept);
    }
    sumOut(s, made, equation->result);
    if (made.labels.size() != equation->result.size())
        return;
    transpose(s, made, equation->result);
    if (single)
        s.add("Identity", {made.name});
    else
        s.add("Cast", {made.name}, {{"to", std::int64_t{onnxType(s.typeOf())}}});
    s.nameOutput();
}

} // namespace planloom::import
