// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace planloom::cuda {

/// A descriptor of cuDNN's graph interface; destroyed with the object.
class GraphPart {
public:
    GraphPart(const GraphApi &api, GraphObject kind) : m_api(&api)
    {
        m_fine = api.createDescriptor(kind, &m_descriptor) == 0;
    }
    GraphPart(GraphPart &&other) noexcept
        : m_api(other.m_api),
          m_descriptor(std::exchange(other.m_descriptor, nullptr)),
          m_fine(other.m_fine)
    {
    }
    GraphPart &operator=(GraphPart &&other) = delete;
    ~GraphPart()
    {
        if (m_descriptor != nullptr)
            m_api->destroyDescriptor(m_descriptor);
    }

    void set(GraphAttribute what, GraphType type, std::int64_t count, const void *values)
    {
        m_fine = m_fine && m_api->set(m_descriptor, what, type, count, values) == 0;
    }
    void set(GraphAttribute what, std::int64_t value) { set(what, GraphType::Int64, 1, &value); }
    void set(GraphAttribute what, float value) { set(what, GraphType::Float, 1, &value); }
    void set(GraphAttribute what, const std::vector<std::int64_t> &values)
    {
        set(what, GraphType::Int64, static_cast<std::int64_t>(values.size()), values.data());
    }
    void set(GraphAttribute what, const GraphPart &part)
    {
        m_fine = m_fine && part.m_fine;
        set(what, GraphType::Descriptor, 1, &part.m_descriptor);
    }
    template <class E>
    void set(GraphAttribute what, GraphType type, E value)
    {
        const auto number = static_cast<int>(value);
        set(what, type, 1, &number);
    }
    /// False: an attribute was refused, or the whole is not supported.
    bool finalize()
    {
        m_fine = m_fine && m_api->finalize(m_descriptor) == 0;
        return m_fine;
    }
    [[nodiscard]] GraphDescriptor get() const { return m_descriptor; }

private:
    const GraphApi *m_api;
    GraphDescriptor m_descriptor = nullptr;
    bool m_fine = false;
};

/// A convolution or one of its gradients by cuDNN, with an engine chosen when it is made: the first that gives the same
/// bits every time and has room in the device's workspace; of float32, one that does not round its inputs.
class GraphConvolution {
public:
    enum class Pass : std::uint8_t { Forward, InputGradient, WeightGradient };
    /// Element types; what is written has the one of its tensor.
    struct Kinds {
        Kind x = Kind::F32, weight = Kind::F32, y = Kind::F32;
    };

    /// Images and weights lie alike: if @p shape's are channels last, so are the weights, (K, taps, C). Errors:
    /// Unsupported (cuDNN is not there, or has no engine for this).
    static Result<GraphConvolution> make(CudaDevice &device, const Convolution &shape, Pass pass, const Kinds &kinds);

    /// Whether cuDNN can read and write there.
    [[nodiscard]] static bool aligned(const void *data);
    void run(CudaQueue &queue, const void *x, const void *weight, const void *y);

private:
    explicit GraphConvolution(CudaDevice &device) : m_device(&device) {}
    bool choose(const GraphPart &graph, GraphHeuristic mode, bool strict);
    bool fits(GraphDescriptor config, bool strict) const;
    const GraphPart &packOf(std::array<const void *, 3> addresses, void *workspace);

    /// Addresses and what cuDNN takes them as.
    struct Pack {
        std::array<const void *, 3> addresses;
        void *workspace;
        GraphPart part;
    };
    CudaDevice *m_device;
    std::vector<GraphPart> m_kept; ///< what the plan was made of
    std::unique_ptr<GraphPart> m_plan;
    std::vector<Pack> m_packs; ///< of the latest runs: addresses are the same every step
};

} // namespace planloom::cuda
