// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/kinds.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::overlay {
namespace {

using Role = Named::Role;

struct KindRow {
    const char *name;
    double weight;
    KindSet parts;
    KindSet begins;
};

template <class... Kinds>
constexpr KindSet any(Kinds... kinds)
{
    return (only(kinds) | ...);
}

using K = OpKind;
constexpr KindSet kArithmetic = any(K::Add, K::Multiply, K::Elementwise, K::Reduction);

/// By OpKind.
constexpr std::array<KindRow, kOpKinds> kRows{{
    {"product", 8, any(K::Product, K::Add, K::Reduction, K::Move), 0},
    {"convolution", 8, any(K::Convolution, K::Add, K::Reduction, K::Move), 0},
    {"attention", 8, kArithmetic | any(K::Attention, K::Product, K::Softmax, K::Dropout, K::Move), only(K::Product)},
    {"normalization", 6, kArithmetic | any(K::LayerNorm, K::Move), only(K::Elementwise)},
    {"batch normalization", 6, kArithmetic | only(K::BatchNorm), 0},
    {"softmax", 6, any(K::Softmax, K::Reduction), 0},
    {"loss", 6, kArithmetic | any(K::Loss, K::Softmax, K::Move), only(K::Softmax)},
    {"embedding", 6, any(K::Embedding, K::Move), 0},
    {"pooling", 6, 0, 0},
    {"recurrent", 8, kArithmetic | any(K::Product, K::Sigmoid, K::Tanh), 0},
    {"dropout", 2, any(K::Multiply, K::Elementwise), 0},
    {"relu", 4, 0, 0},
    {"gelu", 4, any(K::Multiply, K::Add, K::Elementwise, K::Tanh), 0},
    {"silu", 4, any(K::Multiply), only(K::Sigmoid)},
    {"sigmoid", 4, 0, 0},
    {"tanh", 4, 0, 0},
    {"activation", 4, kArithmetic, 0},
    {"addition", 2, 0, 0},
    {"multiplication", 2, 0, 0},
    {"element-wise", 2, 0, 0},
    {"reduction", 2, 0, 0},
    {"move", 1, 0, 0},
    {"other", 1, 0, 0},
}};

const KindRow &rowOf(OpKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

/// Small letters and digits alone: "native_layer_norm" and "NativeLayerNorm" are one name.
std::string folded(std::string_view text)
{
    std::string made;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            made += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return made;
}

struct EventRow {
    const char *names; ///< separated by blanks, folded
    KindSet kinds;
    Role role = Role::Operator;
};

/// Operators of PyTorch; those of autograd have the same names and "Backward0" behind.
constexpr EventRow kEvents[] = {
    {"linear addmm mm bmm matmul baddbmm addbmm addmv mv dot einsum tensordot inner scaledmm addmmactivation",
     only(K::Product)},
    {"conv1d conv2d conv3d convolution convolutionoverrideable cudnnconvolution mkldnnconvolution convtranspose2d "
     "slowconv2d thnnconv2d miopenconvolution cudnnconvolutionaddrelu",
     only(K::Convolution)},
    {"scaleddotproductattention scaleddotproductflashattention scaleddotproductefficientattention "
     "scaleddotproductcudnnattention scaleddotproductattentionmath scaleddotproductflashattentionforcpu "
     "flashattentionforward efficientattentionforward nativemultiheadattention flashattnfunc flashattn",
     only(K::Attention)},
    {"layernorm nativelayernorm rmsnorm fusedrmsnorm groupnorm nativegroupnorm", only(K::LayerNorm)},
    {"batchnorm nativebatchnorm cudnnbatchnorm instancenorm batchnormimplindex", only(K::BatchNorm)},
    {"softmax logsoftmax maskedsoftmax", only(K::Softmax)},
    {"crossentropyloss nllloss nllloss2d nlllossnd nlllossforward mseloss l1loss smoothl1loss huberloss klDiv "
     "binarycrossentropy binarycrossentropywithlogits",
     only(K::Loss)},
    {"embedding embeddingbag embeddingdense indexselect gather", only(K::Embedding)},
    {"maxpool2d maxpool2dwithindices avgpool2d adaptiveavgpool2d adaptivemaxpool2d maxpool1d avgpool1d", only(K::Pool)},
    {"lstm gru rnntanh rnnrelu cudnnrnn lstmcell grucell thnnfusedlstmcell thnnfusedgrucell", only(K::Recurrent)},
    {"dropout nativedropout featuredropout fuseddropout bernoulli", only(K::Dropout)},
    {"relu relu6 threshold clampmin", only(K::Relu)},
    {"gelu", only(K::Gelu)},
    {"silu", only(K::Silu)},
    {"sigmoid", only(K::Sigmoid)},
    {"tanh", only(K::Tanh)},
    {"leakyrelu elu selu celu softplus mish hardswish hardsigmoid hardtanh prelu glu logsigmoid", only(K::Activation)},
    {"add sub rsub", only(K::Add)},
    {"mul div", only(K::Multiply)},
    {"pow sqrt rsqrt exp log neg abs sin cos erf where maskedfill clamp maximum minimum eq ne gt lt ge le addcmul "
     "addcdiv square reciprocal tril triu logicalnot bitwisenot",
     only(K::Elementwise)},
    {"sum mean amax amin max min var std norm prod cumsum argmax logsumexp linalgvectornorm", only(K::Reduction)},
    {"copy clone contiguous cat stack tocopy to pad constantpadnd roll repeat index", only(K::Move)},
    {"view reshape reshapealias unsafeview expand expandas t transpose permute select slice narrow squeeze unsqueeze "
     "asstrided detach alias split splitwithsizes chunk unbind flatten unflatten empty emptylike emptystrided "
     "resize resolveconj resolveneg item localscalardense newempty",
     0, Role::View},
    {"checkpointfunction", 0, Role::Recomputes},
};

const std::unordered_map<std::string, Named> &eventTable()
{
    static const std::unordered_map<std::string, Named> table = [] {
        std::unordered_map<std::string, Named> made;
        for (const EventRow &row : kEvents) {
            for (std::string_view rest = row.names; !rest.empty();) {
                const std::size_t end = std::min(rest.find(' '), rest.size());
                made.emplace(folded(rest.substr(0, end)), Named{row.role, row.kinds});
                rest.remove_prefix(std::min(end + 1, rest.size()));
            }
        }
        return made;
    }();
    return table;
}

bool removePrefix(std::string_view &text, std::string_view prefix)
{
    if (!text.starts_with(prefix))
        return false;
    text.remove_prefix(prefix.size());
    return true;
}

/// "AddmmBackward0" is "Addmm"; an operator's own gradient, "native_layer_norm_backward", likewise. False: no gradient.
bool removeBackward(std::string_view &text)
{
    std::string_view stem = text;
    while (!stem.empty() && (std::isdigit(static_cast<unsigned char>(stem.back())) != 0 || stem.back() == '>'))
        stem.remove_suffix(1);
    for (const std::string_view end : {std::string_view("Backward"), std::string_view("_backward")}) {
        if (stem.size() > end.size() && stem.ends_with(end)) {
            text = stem.substr(0, stem.size() - end.size());
            return true;
        }
    }
    return false;
}

/// A range of a training step, as readers of traces count them.
bool isStepRange(std::string_view event)
{
    const std::string name = folded(event);
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == name.size() || digits == 0)
        return false;
    const std::string_view stem = std::string_view(name).substr(0, digits);
    return stem == "profilerstep" || stem == "step" || stem == "iteration" || stem == "trainstep" || stem == "iter";
}

struct KernelRow {
    const char *part; ///< of the name in small letters
    KindSet kinds;
};
/// The first that a name holds counts.
constexpr KernelRow kKernels[] = {
    {"flash", only(K::Attention)},
    {"fmha", only(K::Attention)},
    {"attention", only(K::Attention)},
    {"cross_entropy", only(K::Loss)},
    {"nll_loss", only(K::Loss)},
    {"mse_loss", only(K::Loss)},
    {"layer_norm", only(K::LayerNorm)},
    {"layernorm", only(K::LayerNorm)},
    {"rms_norm", only(K::LayerNorm)},
    {"rmsnorm", only(K::LayerNorm)},
    {"batch_norm", only(K::BatchNorm)},
    {"batchnorm", only(K::BatchNorm)},
    {"bn_fw", only(K::BatchNorm)},
    {"bn_bw", only(K::BatchNorm)},
    {"softmax", only(K::Softmax)},
    {"winograd", only(K::Convolution)},
    {"fprop", only(K::Convolution)},
    {"dgrad", only(K::Convolution)},
    {"wgrad", only(K::Convolution)},
    {"convolve", only(K::Convolution)},
    {"conv2d", only(K::Convolution)},
    {"gemm", only(K::Product)},
    {"gemv", only(K::Product)},
    {"cutlass", only(K::Product)},
    {"nvjet", only(K::Product)},
    {"matmul", only(K::Product)},
    {"embedding", only(K::Embedding)},
    {"indexselect", only(K::Embedding)},
    {"pool", only(K::Pool)},
    {"lstm", only(K::Recurrent)},
    {"rnn", only(K::Recurrent)},
    {"dropout", only(K::Dropout)},
    {"gelu", only(K::Gelu)},
    {"silu", only(K::Silu)},
    {"relu", only(K::Relu)},
    {"threshold", only(K::Relu)},
    {"clamp_min", only(K::Relu)},
    {"sigmoid", only(K::Sigmoid)},
    {"tanh", only(K::Tanh)},
    {"functor_add", only(K::Add)},
    {"functoronself_add", only(K::Add)},
    {"addfunctor", only(K::Add)},
    {"mulfunctor", only(K::Multiply)},
    {"divfunctor", only(K::Multiply)},
    {"reduce_kernel", only(K::Reduction)},
    {"copy", only(K::Move)},
    {"transpose", only(K::Move)},
    {"catarray", only(K::Move)},
    {"memcpy", only(K::Move)},
    {"elementwise", only(K::Elementwise)},
};

/// "triton_poi_fused_add_native_layer_norm_3": all operators that its name lists.
KindSet kindsOfFused(std::string_view lower)
{
    std::vector<std::string> words;
    for (std::string_view rest = lower.substr(lower.find("fused") + 5); !rest.empty();) {
        const std::size_t end = std::min(rest.find('_'), rest.size());
        if (end > 0)
            words.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    KindSet kinds = 0;
    constexpr std::size_t kLongest = 4; // words of one name
    for (std::size_t at = 0; at < words.size();) {
        std::size_t used = 1;
        for (std::size_t count = std::min(kLongest, words.size() - at); count > 0; --count) {
            std::string name;
            for (std::size_t i = 0; i < count; ++i)
                name += words[at + i];
            const auto found = eventTable().find(name);
            if (found == eventTable().end())
                continue;
            kinds |= found->second.kinds;
            used = count;
            break;
        }
        at += used;
    }
    return kinds;
}

} // namespace

const char *name(OpKind kind) { return rowOf(kind).name; }

double weight(OpKind kind) { return rowOf(kind).weight; }

OpKind heaviest(KindSet kinds)
{
    OpKind best = OpKind::Other;
    for (std::size_t i = 0; i < kOpKinds; ++i) {
        const auto kind = static_cast<OpKind>(i);
        if ((kinds & only(kind)) != 0 && (best == OpKind::Other || weight(kind) > weight(best)))
            best = kind;
    }
    return best;
}

double weight(KindSet kinds) { return weight(heaviest(kinds)); }

KindSet partsOf(OpKind op) { return rowOf(op).parts; }

KindSet beginsOf(OpKind op) { return rowOf(op).begins; }

OpKind kindOf(const graph::Op &op)
{
    using graph::CostClass;
    static const std::unordered_map<std::string, OpKind> byType{{"Softmax", K::Softmax},
                                                                {"LogSoftmax", K::Softmax},
                                                                {"Relu", K::Relu},
                                                                {"Gelu", K::Gelu},
                                                                {"Silu", K::Silu},
                                                                {"Sigmoid", K::Sigmoid},
                                                                {"Tanh", K::Tanh},
                                                                {"LeakyRelu", K::Activation},
                                                                {"Elu", K::Activation},
                                                                {"Selu", K::Activation},
                                                                {"Celu", K::Activation},
                                                                {"Softplus", K::Activation},
                                                                {"Mish", K::Activation},
                                                                {"HardSwish", K::Activation},
                                                                {"HardSigmoid", K::Activation},
                                                                {"PRelu", K::Activation},
                                                                {"Add", K::Add},
                                                                {"Sub", K::Add},
                                                                {"AddN", K::Add},
                                                                {"Mul", K::Multiply},
                                                                {"Div", K::Multiply},
                                                                {"LSTM", K::Recurrent},
                                                                {"GRU", K::Recurrent},
                                                                {"RNN", K::Recurrent},
                                                                {"Gather", K::Embedding},
                                                                {"GatherElements", K::Embedding},
                                                                {"Transpose", K::Move},
                                                                {"Concat", K::Move},
                                                                {"Slice", K::Move},
                                                                {"Split", K::Move},
                                                                {"Pad", K::Move},
                                                                {"Expand", K::Move},
                                                                {"Cast", K::Move}};
    const std::string &type = op.type.name();
    if (const auto found = byType.find(type); found != byType.end())
        return found->second;
    const graph::OpTraits &traits = op.traits();
    if (traits.isConvolution() || type == "ConvTranspose")
        return K::Convolution;
    if (traits.isAttention())
        return K::Attention;
    if (traits.loss)
        return K::Loss;
    if (traits.cost == CostClass::Product)
        return K::Product;
    if (type.find("BatchNorm") != std::string::npos)
        return K::BatchNorm;
    if (type.find("Normalization") != std::string::npos)
        return K::LayerNorm;
    if (type.find("Pool") != std::string::npos)
        return K::Pool;
    if (type.find("Dropout") != std::string::npos)
        return K::Dropout;
    if (type.starts_with("Reduce"))
        return K::Reduction;
    if (traits.picksRows)
        return K::Embedding;
    if (traits.cost == CostClass::View || traits.elementWise == graph::ElementWise::Moves)
        return K::Move;
    return traits.elementWise == graph::ElementWise::Computes ? K::Elementwise : K::Other;
}

Named named(std::string_view event)
{
    // NVTX ranges of PyTorch: "aten::linear, seq = 12, op_id = 3"
    event = event.substr(0, event.find(", "));
    if (event.starts_with("Optimizer.step") || event.starts_with("optimizer.step"))
        return {Role::Optimizer, 0};
    if (isStepRange(event))
        return {Role::Step, 0};
    const bool isNode = removePrefix(event, "autograd::engine::evaluate_function: ");
    bool isOperator = false;
    for (const std::string_view space : {"aten::", "torch::", "flash_attn::", "vllm::", "prims::"})
        isOperator = removePrefix(event, space) || isOperator;
    const bool inAutograd = removePrefix(event, "autograd::");
    while (event.starts_with('_'))
        event.remove_prefix(1);
    while (event.ends_with('_')) // in place
        event.remove_suffix(1);
    const bool isGradient = removeBackward(event);
    const bool isAutograd = isNode || isGradient || inAutograd;
    if (!isOperator && !isAutograd)
        return {};
    const auto found = eventTable().find(folded(event));
    const Role known = found == eventTable().end() ? Role::Operator : found->second.role;
    const KindSet kinds = found == eventTable().end() ? 0 : found->second.kinds;
    if (known == Role::Recomputes)
        return {isGradient || isNode ? known : Role::None, 0};
    if (isAutograd)
        return {Role::Backward, kinds};
    return {known, kinds};
}

NamedKernel namedKernel(std::string_view kernel)
{
    std::string lower(kernel);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
    NamedKernel made;
    made.optimizer = has("multi_tensor") || has("adam") || has("multitensor") || has("lamb_") || has("sgd");
    made.backward = has("backward") || has("bwd") || has("dgrad") || has("wgrad") || has("_grad") || has("gradinput");
    made.forward = !made.backward && (has("forward") || has("fwd") || has("fprop"));
    if (made.optimizer)
        return made;
    if (has("triton") && has("fused")) {
        made.kinds = kindsOfFused(lower);
        if (made.kinds != 0)
            return made;
    }
    for (const KernelRow &row : kKernels) {
        if (has(row.part)) {
            made.kinds = row.kinds;
            break;
        }
    }
    return made;
}

} // namespace planloom::overlay
