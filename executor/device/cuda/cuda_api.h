// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// The functions of NVIDIA's libraries that the device uses, a table per library, so that tests can put another
/// provider in their place. Types and numbers are those of the C interfaces, which library/libraries.cpp compares them
/// with; nothing here needs the toolkit's headers.
namespace planloom::cuda {

using Stream = struct StreamHandle *;
using EventHandle = struct EventObject *;
using CapturedGraph = struct CapturedGraphObject *;
using GraphExec = struct GraphExecObject *;

/// dim3.
struct Grid {
    unsigned int x = 1, y = 1, z = 1;
};

/// Of memory, for another process.
struct MemoryHandle {
    char bytes[64];
};

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotReady = 600;
inline constexpr unsigned int kStreamNonBlocking = 1;
inline constexpr unsigned int kEventDisableTiming = 2;
inline constexpr unsigned int kHostAllocPortable = 1;
inline constexpr unsigned int kOpenLazily = 1;
inline constexpr int kCaptureThreadLocal = 1; ///< calls that no capture may have fail on the capturing thread alone
enum class CopyKind : int { HostToDevice = 1, DeviceToHost = 2, DeviceToDevice = 3 };

/// CUDA's runtime, version 12 and 13. Every function that returns int returns a cudaError_t.
struct RuntimeApi {
    int (*getDeviceCount)(int *count);
    /// Not a function of the runtime: name and bytes of memory, of its properties.
    int (*describe)(int device, char *name, std::size_t nameBytes, std::int64_t *memoryBytes);
    /// Likewise: a text of 32 hexadecimal digits that no other device of any machine has.
    int (*identify)(int device, char *text, std::size_t textBytes);
    /// Likewise: its compute capability, 10 times the major and the minor number.
    int (*capabilityOf)(int device, int *capability);
    int (*setDevice)(int device);
    const char *(*errorText)(int error);
    int (*malloc)(void **data, std::size_t bytes);
    int (*free)(void *data);
    /// Of a block of malloc(); another process opens it on the same device.
    int (*exportMemory)(MemoryHandle *handle, void *data);
    int (*openMemory)(void **data, MemoryHandle handle, unsigned int flags);
    int (*closeMemory)(void *data);
    int (*hostAlloc)(void **data, std::size_t bytes, unsigned int flags);
    int (*freeHost)(void *data);
    int (*memset)(void *data, int value, std::size_t bytes); ///< done when it returns, as seen by streams made later
    int (*streamCreate)(Stream *stream, unsigned int flags);
    int (*streamDestroy)(Stream stream);
    int (*streamSynchronize)(Stream stream);
    int (*eventCreate)(EventHandle *event, unsigned int flags);
    int (*eventDestroy)(EventHandle event);
    int (*eventRecord)(EventHandle event, Stream stream);
    int (*eventQuery)(EventHandle event);
    int (*streamWaitEvent)(Stream stream, EventHandle event, unsigned int flags);
    int (*memcpyAsync)(void *to, const void *from, std::size_t bytes, CopyKind kind, Stream stream);
    int (*memsetAsync)(void *to, int value, std::size_t bytes, Stream stream);
    int (*launchHostFunc)(Stream stream, void (*function)(void *), void *data);
    int (*launchKernel)(const void *function, Grid grid, Grid block, void **arguments, std::size_t sharedBytes,
                        Stream stream);
    int (*streamBeginCapture)(Stream stream, int mode);
    int (*streamEndCapture)(Stream stream, CapturedGraph *graph);
    int (*graphInstantiate)(GraphExec *exec, CapturedGraph graph);
    int (*graphDestroy)(CapturedGraph graph);
    int (*graphLaunch)(GraphExec exec, Stream stream);
    int (*graphExecDestroy)(GraphExec exec); ///< what is under way ends first
};

// --- cuBLASLt -------------------------------------------------------------------------------------------------------

using ProductHandle = struct ProductContext *;
using ProductDescription = struct ProductDescriptionObject *;
using MatrixLayout = struct MatrixLayoutObject *;
using ProductPreference = struct ProductPreferenceObject *;

enum class DataKind : int { Float32 = 0, BFloat16 = 14 };
enum class ComputeKind : int { Float32 = 68, Tf32 = 77 };
/// cublasLtMatmulDescAttributes_t, those that are used.
enum class ProductAttribute : int {
    TransA = 3,
    TransB = 4,
    Epilogue = 7,
    BiasPointer = 8,
    AuxiliaryPointer = 11,
    AuxiliaryLeading = 12,
};
/// What is done with sums before they are rounded. Its GELU is the one by tanh.
enum class Epilogue : std::uint32_t {
    None = 1,
    Bias = 4,       ///< plus a column, of the product's type
    GeluBias = 164, ///< the same, which is also kept as auxiliary matrix, then GELU
};
enum class LayoutAttribute : int { BatchCount = 5, BatchStride = 6 };
/// cublasLtMatmulPreferenceAttributes_t, those that are used.
enum class PreferenceAttribute : int {
    MaxWorkspaceBytes = 1,
    AlignmentA = 5,
    AlignmentB = 6,
    AlignmentC = 7,
    AlignmentD = 8,
};

/// cublasLtMatmulAlgo_t.
struct ProductAlgorithm {
    std::uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct ProductHeuristic {
    ProductAlgorithm algorithm;
    std::size_t workspaceBytes;
    int state;
    float waves;
    int reserved[4];
};

/// Every function returns a cublasStatus_t. Matrices are column-major.
struct ProductApi {
    int (*create)(ProductHandle *handle);
    int (*destroy)(ProductHandle handle);
    int (*createDescription)(ProductDescription *made, ComputeKind compute, DataKind scale);
    int (*destroyDescription)(ProductDescription description);
    int (*setDescription)(ProductDescription description, ProductAttribute what, const void *value, std::size_t bytes);
    int (*createLayout)(MatrixLayout *made, DataKind kind, std::uint64_t rows, std::uint64_t columns,
                        std::int64_t leading);
    int (*destroyLayout)(MatrixLayout layout);
    int (*setLayout)(MatrixLayout layout, LayoutAttribute what, const void *value, std::size_t bytes);
    int (*createPreference)(ProductPreference *made);
    int (*destroyPreference)(ProductPreference preference);
    int (*setPreference)(ProductPreference preference, PreferenceAttribute what, const void *value, std::size_t bytes);
    int (*heuristic)(ProductHandle handle, ProductDescription description, MatrixLayout a, MatrixLayout b,
                     MatrixLayout c, MatrixLayout d, ProductPreference preference, int asked, ProductHeuristic *found,
                     int *count);
    int (*product)(ProductHandle handle, ProductDescription description, const void *alpha, const void *a,
                   MatrixLayout aLayout, const void *b, MatrixLayout bLayout, const void *beta, const void *c,
                   MatrixLayout cLayout, void *d, MatrixLayout dLayout, const ProductAlgorithm *algorithm,
                   void *workspace, std::size_t workspaceBytes, Stream stream);
};

// --- cuDNN 9, its graph interface
// -------------------------------------------------------------------------------------

using GraphHandle = struct GraphContext *;
using GraphDescriptor = struct GraphDescriptorObject *; ///< cudnnBackendDescriptor_t is a void *

/// cudnnBackendDescriptorType_t, those that are used.
enum class GraphObject : int {
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    EngineHeuristic = 4,
    ExecutionPlan = 5,
    ConvolutionForward = 10,
    ConvolutionBackwardFilter = 11,
    ConvolutionBackwardData = 12,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
};
/// cudnnBackendAttributeType_t, those that are used.
enum class GraphType : int {
    Handle = 0,
    DataType = 1,
    Boolean = 2,
    Int64 = 3,
    Float = 4,
    VoidPointer = 6,
    ConvolutionMode = 7,
    HeuristicMode = 8,
    NumericalNote = 11,
    Descriptor = 15,
};
/// cudnnBackendAttributeName_t, those that are used.
enum class GraphAttribute : int {
    ConvolutionComputeType = 100,
    ConvolutionMode = 101,
    ConvolutionDilations = 102,
    ConvolutionStrides = 103,
    ConvolutionPadsAfter = 104,
    ConvolutionPadsBefore = 105,
    ConvolutionSpatialDims = 106,
    HeuristicMode = 200,
    HeuristicGraph = 201,
    HeuristicResults = 202,
    ConfigEngine = 300,
    PlanHandle = 400,
    PlanConfig = 401,
    PlanWorkspaceBytes = 402,
    ForwardAlpha = 700,
    ForwardBeta = 701,
    ForwardConvolution = 702,
    ForwardW = 703,
    ForwardX = 704,
    ForwardY = 705,
    BackwardDataAlpha = 706,
    BackwardDataBeta = 707,
    BackwardDataConvolution = 708,
    BackwardDataW = 709,
    BackwardDataDX = 710,
    BackwardDataDY = 711,
    BackwardFilterAlpha = 712,
    BackwardFilterBeta = 713,
    BackwardFilterConvolution = 714,
    BackwardFilterDW = 715,
    BackwardFilterX = 716,
    BackwardFilterDY = 717,
    HandleOfGraph = 800,
    GraphOperations = 801,
    TensorByteAlignment = 900,
    TensorDataType = 901,
    TensorDimensions = 902,
    TensorStrides = 903,
    TensorUniqueId = 906,
    PackUniqueIds = 1000,
    PackPointers = 1001,
    PackWorkspace = 1003,
    EngineNumericalNote = 1303,
};
enum class GraphDataType : int { Float = 0, BFloat16 = 9 };
enum class GraphHeuristic : int { Fallback = 2, A = 3 };
enum class NumericalNote : int { TensorCore = 0, DownConverts = 1, Nondeterministic = 4 };
inline constexpr int kMostNumericalNotes = 10;
inline constexpr int kCrossCorrelation = 1;

/// Every function that returns int returns a cudnnStatus_t.
struct GraphApi {
    int (*create)(GraphHandle *handle);
    int (*destroy)(GraphHandle handle);
    int (*setStream)(GraphHandle handle, Stream stream);
    int (*createDescriptor)(GraphObject kind, GraphDescriptor *made);
    int (*destroyDescriptor)(GraphDescriptor descriptor);
    int (*set)(GraphDescriptor descriptor, GraphAttribute what, GraphType type, std::int64_t count, const void *values);
    /// @p room elements at @p values; @p count: how many there are.
    int (*get)(GraphDescriptor descriptor, GraphAttribute what, GraphType type, std::int64_t room, std::int64_t *count,
               void *values);
    int (*finalize)(GraphDescriptor descriptor);
    int (*execute)(GraphHandle handle, GraphDescriptor plan, GraphDescriptor pack);
};

/// 8.0: what our kernels are compiled for, and the oldest with bfloat16 and TF32 (CMakeLists.txt).
inline constexpr int kOldestCapability = 80;
inline constexpr unsigned int kRowThreads = 256; ///< of a block of a real GPU that works on one row

/// Everything that the device needs. Kernels of ours, by number (kernels/list.h): what launchKernel takes as function.
struct Provider {
    RuntimeApi runtime{};
    const ProductApi *products = nullptr; ///< nullptr: the library is not there, products run on the host
    const GraphApi *graphs = nullptr;     ///< nullptr: cuDNN is not there, our own kernels compute
    const void *const *kernels = nullptr;
    unsigned int rowThreads = kRowThreads; ///< threads of a block that works on one row; a power of 2
    std::int64_t mostBlocks = 1 << 16; ///< of one start; a block then works on several items
    std::int64_t leastPart = 512; ///< elements that a thread adds up before a sum is shared out over more blocks
    /// Products with unaligned rows (unaligned_product.h): elements from which on they are made of pieces, bytes of a
    /// piece, and of sums over pieces.
    std::int64_t leastUnaligned = std::int64_t{1} << 20;
    std::int64_t pieceBytes = std::int64_t{96} << 20;
    std::int64_t sumBytes = std::int64_t{32} << 20;
};

} // namespace planloom::cuda
