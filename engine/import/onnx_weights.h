// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx_tensor.h"

#include <string>

namespace planloom::import {

// ONNX does not say which tensors are trained. These rules tell weights from masks and data by where they are used and what they
// are called.

/// Inputs of an operator type whose stored tensors are weights whatever they are called.
bool isWeightPosition(const std::string &type, std::size_t input);
bool hasWeightName(const std::string &name);
/// What modules keep beside their weights and compute with: tables of rotated positions.
bool hasBufferName(const std::string &name);
/// Whether a person seems to have named @p tensor, not an exporter that needed a constant.
bool looksNamed(const std::string &name, const StoredTensor &tensor);

/// The dimension of an input that counts samples: the second one of what feeds a recurrent layer, whose first is time.
int batchAxisOf(const onnx::GraphProto &graph, const std::string &input);
/// True for an input of a file without weights that stands for one: a float of fixed size with a weight's name or place.
bool looksLikeWeight(const onnx::GraphProto &graph, const onnx::ValueInfoProto &input);

/// A stored float tensor that operator @p type adds, multiplies or moves is learned (a position table), unless it is a scalar or holds
/// a mask's huge values.
bool isLearnedAddend(const StoredTensor &tensor, const std::string &type);

/// True if a value that was computed while the file was read is a weight of a recurrent layer: exporters for training cut the module's weights
/// and join them in ONNX's order of gates, and what they make is what is trained.
bool isRearrangedWeight(const std::string &type, std::size_t input, const KnownValue &value);

/// True where a stored tensor is cut or compared rather than computed with: a causal mask, which can be folded.
bool isMaskHandling(const std::string &name, const std::string &type);

/// First values for a weight that the file does not hold: scales one, biases zero, matrices by their fan-in (He et al. 2015).
graph::Initializer initialGuess(const std::string &name, const std::vector<std::int64_t> &dims);

} // namespace planloom::import
