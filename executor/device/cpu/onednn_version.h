// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

// The differences between oneDNN 2 (operation descriptors, output scales) and oneDNN 3 (neither), and nothing else.
// Included by onednn*.cpp only.
namespace planloom::device::onednn {

using dnnl::memory;

inline dnnl::engine &engine()
{
    static dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
    return kEngine;
}

/// Arguments of a convolution's descriptors.
struct ConvolutionMemory {
    memory::desc x, weight, bias, y; ///< bias is empty where there is none
    memory::dims strides, dilations, padBegin, padEnd;
};

#if DNNL_VERSION_MAJOR >= 3

inline void appendElementwise(dnnl::post_ops &ops, dnnl::algorithm which, float alpha, float beta)
{
    ops.append_eltwise(which, alpha, beta);
}

inline dnnl::matmul::primitive_desc describeMatmul(const memory::desc &a, const memory::desc &b,
                                                   const memory::desc *bias, const memory::desc &y,
                                                   const dnnl::primitive_attr &attr)
{
    if (bias == nullptr)
        return {engine(), a, b, y, attr};
    return {engine(), a, b, *bias, y, attr};
}

inline dnnl::convolution_forward::primitive_desc describeForward(const ConvolutionMemory &m,
                                                                 const dnnl::primitive_attr &attr)
{
    return {engine(),
            dnnl::prop_kind::forward_training,
            dnnl::algorithm::convolution_direct,
            m.x,
            m.weight,
            m.bias,
            m.y,
            m.strides,
            m.dilations,
            m.padBegin,
            m.padEnd,
            attr};
}

inline dnnl::convolution_backward_data::primitive_desc describeBackwardData(
    const ConvolutionMemory &m, const dnnl::primitive_attr &attr,
    const dnnl::convolution_forward::primitive_desc &forward)
{
    return {engine(),    dnnl::algorithm::convolution_direct,
            m.x,         m.weight,
            m.y,         m.strides,
            m.dilations, m.padBegin,
            m.padEnd,    forward,
            attr};
}

inline dnnl::convolution_backward_weights::primitive_desc describeBackwardWeights(
    const ConvolutionMemory &m, const dnnl::primitive_attr &attr,
    const dnnl::convolution_forward::primitive_desc &forward)
{
    return {engine(),   dnnl::algorithm::convolution_direct,
            m.x,        m.weight,
            m.bias,     m.y,
            m.strides,  m.dilations,
            m.padBegin, m.padEnd,
            forward,    attr};
}

#else

inline void appendElementwise(dnnl::post_ops &ops, dnnl::algorithm which, float alpha, float beta)
{
    ops.append_eltwise(1.0F, which, alpha, beta);
}

inline dnnl::matmul::primitive_desc describeMatmul(const memory::desc &a, const memory::desc &b,
                                                   const memory::desc *bias, const memory::desc &y,
                                                   const dnnl::primitive_attr &attr)
{
    if (bias == nullptr)
        return {dnnl::matmul::desc(a, b, y), attr, engine()};
    return {dnnl::matmul::desc(a, b, *bias, y), attr, engine()};
}

inline dnnl::convolution_forward::primitive_desc describeForward(const ConvolutionMemory &m,
                                                                 const dnnl::primitive_attr &attr)
{
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                                               m.x, m.weight, m.bias, m.y, m.strides, m.dilations, m.padBegin,
                                               m.padEnd);
    return {desc, attr, engine()};
}

inline dnnl::convolution_backward_data::primitive_desc describeBackwardData(
    const ConvolutionMemory &m, const dnnl::primitive_attr &attr,
    const dnnl::convolution_forward::primitive_desc &forward)
{
    const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, m.x, m.weight, m.y, m.strides,
                                                     m.dilations, m.padBegin, m.padEnd);
    return {desc, attr, engine(), forward};
}

inline dnnl::convolution_backward_weights::primitive_desc describeBackwardWeights(
    const ConvolutionMemory &m, const dnnl::primitive_attr &attr,
    const dnnl::convolution_forward::primitive_desc &forward)
{
    const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, m.x, m.weight, m.bias, m.y,
                                                        m.strides, m.dilations, m.padBegin, m.padEnd);
    return {desc, attr, engine(), forward};
}

#endif

} // namespace planloom::device::onednn
