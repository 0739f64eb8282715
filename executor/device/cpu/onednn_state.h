// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cpu/onednn.h"
#include "executor/device/cpu/onednn_version.h"

#include <string>
#include <unordered_map>
#include <utility>

// Shared by the makers of primitives. Included by onednn*.cpp only.
namespace planloom::device::onednn {

/// Strides of contiguous dimensions.
inline memory::desc rowMajor(const std::vector<std::int64_t> &dims, memory::data_type type = memory::data_type::f32)
{
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t d = dims.size(); d-- > 1;)
        strides[d - 1] = strides[d] * dims[d];
    return {dims, type, strides};
}

/// The layout is oneDNN's choice.
inline memory::desc anyLayout(const std::vector<std::int64_t> &dims, memory::data_type type = memory::data_type::f32)
{
    return {dims, type, memory::format_tag::any};
}

inline dnnl::primitive_attr attributes()
{
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
}

/// What a primitive of oneDNN needs from run to run.
struct Primitive::State {
    /// An argument at the border, and the copy in the primitive's own layout where that differs.
    struct Slot {
        memory border;
        memory inside;
        dnnl::reorder copy;
        bool copied = false;
        bool written = false;
    };
    dnnl::stream stream{engine()};
    dnnl::primitive primitive;
    std::vector<Slot> slots;
    std::unordered_map<int, memory> arguments;

    void add(int name, const memory::desc &border, const memory::desc &inside, bool written)
    {
        Slot slot;
        slot.written = written;
        slot.border = memory(border, engine(), nullptr);
        slot.copied = border != inside;
        slot.inside = slot.copied ? memory(inside, engine()) : slot.border;
        if (slot.copied)
            slot.copy = written ? dnnl::reorder(slot.inside, slot.border) : dnnl::reorder(slot.border, slot.inside);
        arguments.emplace(name, slot.inside);
        slots.push_back(std::move(slot));
    }

    void finish(dnnl::primitive made, const memory::desc &scratchpad)
    {
        primitive = std::move(made);
        arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, engine()));
    }

    void copyAll(bool written)
    {
        for (Slot &slot : slots) {
            if (!slot.copied || slot.written != written)
                continue;
            if (written)
                slot.copy.execute(stream, slot.inside, slot.border);
            else
                slot.copy.execute(stream, slot.border, slot.inside);
        }
    }
};

/// Runs @p make(State &), which talks to oneDNN, and turns its exceptions into errors.
template <class F>
Result<Primitive> guarded(const char *what, F make)
{
    try {
        auto state = std::make_unique<Primitive::State>();
        make(*state);
        return Primitive(std::move(state));
    } catch (const dnnl::error &error) {
        return unsupported(std::string("oneDNN cannot make this ") + what + ": " + error.what());
    }
}

} // namespace planloom::device::onednn
