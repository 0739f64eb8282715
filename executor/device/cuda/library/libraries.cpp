// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/library/libraries.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#define PLANLOOM_CUDNN_HEADERS
#endif

namespace planloom::cuda {

namespace {

// --- What cuda_api.h says about the interfaces ----------------------------------------------------------------------

static_assert(kSuccess == cudaSuccess && kNotReady == cudaErrorNotReady && kInvalidValue == cudaErrorInvalidValue
              && kOutOfMemory == cudaErrorMemoryAllocation);
static_assert(kStreamNonBlocking == cudaStreamNonBlocking && kEventDisableTiming == cudaEventDisableTiming);
static_assert(sizeof(MemoryHandle) == sizeof(cudaIpcMemHandle_t) && kOpenLazily == cudaIpcMemLazyEnablePeerAccess);
static_assert(kHostAllocPortable == cudaHostAllocPortable && kCaptureThreadLocal == cudaStreamCaptureModeThreadLocal);
static_assert(static_cast<int>(CopyKind::HostToDevice) == cudaMemcpyHostToDevice
              && static_cast<int>(CopyKind::DeviceToHost) == cudaMemcpyDeviceToHost
              && static_cast<int>(CopyKind::DeviceToDevice) == cudaMemcpyDeviceToDevice);
static_assert(static_cast<int>(DataKind::Float32) == CUDA_R_32F && static_cast<int>(DataKind::BFloat16) == CUDA_R_16BF);
static_assert(static_cast<int>(ComputeKind::Float32) == CUBLAS_COMPUTE_32F
              && static_cast<int>(ComputeKind::Tf32) == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(static_cast<int>(ProductAttribute::TransA) == CUBLASLT_MATMUL_DESC_TRANSA
              && static_cast<int>(ProductAttribute::TransB) == CUBLASLT_MATMUL_DESC_TRANSB
              && static_cast<int>(ProductAttribute::Epilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE
              && static_cast<int>(ProductAttribute::BiasPointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER
              && static_cast<int>(ProductAttribute::AuxiliaryPointer) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER
              && static_cast<int>(ProductAttribute::AuxiliaryLeading) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
static_assert(static_cast<int>(Epilogue::None) == CUBLASLT_EPILOGUE_DEFAULT
              && static_cast<int>(Epilogue::Bias) == CUBLASLT_EPILOGUE_BIAS
              && static_cast<int>(Epilogue::GeluBias) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
static_assert(static_cast<int>(LayoutAttribute::BatchCount) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
              && static_cast<int>(LayoutAttribute::BatchStride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(static_cast<int>(PreferenceAttribute::MaxWorkspaceBytes) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
              && static_cast<int>(PreferenceAttribute::AlignmentA) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
              && static_cast<int>(PreferenceAttribute::AlignmentB) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES
              && static_cast<int>(PreferenceAttribute::AlignmentC) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES
              && static_cast<int>(PreferenceAttribute::AlignmentD) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && sizeof(cublasOperation_t) == sizeof(std::int32_t));
static_assert(sizeof(ProductAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(ProductHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t)
              && offsetof(ProductHeuristic, workspaceBytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)
              && offsetof(ProductHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// --- The runtime ----------------------------------------------------------------------------------------------------

cudaStream_t real(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t real(EventHandle event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraph_t real(CapturedGraph graph) { return reinterpret_cast<cudaGraph_t>(graph); }
cudaGraphExec_t real(GraphExec exec) { return reinterpret_cast<cudaGraphExec_t>(exec); }
dim3 real(Grid grid) { return {grid.x, grid.y, grid.z}; }

int describeDevice(int device, char *name, std::size_t nameBytes, std::int64_t *memoryBytes)
{
    cudaDeviceProp properties{};
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess)
        return error;
    std::strncpy(name, properties.name, nameBytes - 1);
    name[nameBytes - 1] = '\0';
    *memoryBytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    return cudaSuccess;
}

int identifyDevice(int device, char *text, std::size_t textBytes)
{
    cudaDeviceProp properties{};
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess)
        return error;
    for (std::size_t i = 0; i < sizeof properties.uuid.bytes && 2 * i + 3 <= textBytes; ++i)
        std::snprintf(text + 2 * i, 3, "%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
    return cudaSuccess;
}

int capabilityOfDevice(int device, int *capability)
{
    int major = 0;
    int minor = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    *capability = 10 * major + minor;
    return error;
}

RuntimeApi linkedRuntime()
{
    RuntimeApi api{};
    api.getDeviceCount = [](int *count) -> int { return cudaGetDeviceCount(count); };
    api.describe = describeDevice;
    api.identify = identifyDevice;
    api.capabilityOf = capabilityOfDevice;
    api.setDevice = [](int device) -> int { return cudaSetDevice(device); };
    api.errorText = [](int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); };
    api.malloc = [](void **data, std::size_t bytes) -> int { return cudaMalloc(data, bytes); };
    api.free = [](void *data) -> int { return cudaFree(data); };
    api.exportMemory = [](MemoryHandle *handle, void *data) -> int {
        return cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t *>(handle), data);
    };
    api.openMemory = [](void **data, MemoryHandle handle, unsigned int flags) -> int {
        cudaIpcMemHandle_t opened{};
        std::memcpy(&opened, &handle, sizeof opened);
        return cudaIpcOpenMemHandle(data, opened, flags);
    };
    api.closeMemory = [](void *data) -> int { return cudaIpcCloseMemHandle(data); };
    api.hostAlloc = [](void **data, std::size_t bytes, unsigned int flags) -> int {
        return cudaHostAlloc(data, bytes, flags);
    };
    api.freeHost = [](void *data) -> int { return cudaFreeHost(data); };
    api.memset = [](void *data, int value, std::size_t bytes) -> int {
        const cudaError_t error = cudaMemset(data, value, bytes);
        return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr); // our streams do not wait for that one
    };
    api.streamCreate = [](Stream *stream, unsigned int flags) -> int {
        return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(stream), flags);
    };
    api.streamDestroy = [](Stream stream) -> int { return cudaStreamDestroy(real(stream)); };
    api.streamSynchronize = [](Stream stream) -> int { return cudaStreamSynchronize(real(stream)); };
    api.eventCreate = [](EventHandle *event, unsigned int flags) -> int {
        return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t *>(event), flags);
    };
    api.eventDestroy = [](EventHandle event) -> int { return cudaEventDestroy(real(event)); };
    api.eventRecord = [](EventHandle event, Stream stream) -> int {
        return cudaEventRecord(real(event), real(stream));
    };
    api.eventQuery = [](EventHandle event) -> int { return cudaEventQuery(real(event)); };
    api.streamWaitEvent = [](Stream stream, EventHandle event, unsigned int flags) -> int {
        return cudaStreamWaitEvent(real(stream), real(event), flags);
    };
    api.memcpyAsync = [](void *to, const void *from, std::size_t bytes, CopyKind kind, Stream stream) -> int {
        return cudaMemcpyAsync(to, from, bytes, static_cast<cudaMemcpyKind>(kind), real(stream));
    };
    api.memsetAsync = [](void *to, int value, std::size_t bytes, Stream stream) -> int {
        return cudaMemsetAsync(to, value, bytes, real(stream));
    };
    api.launchHostFunc = [](Stream stream, void (*function)(void *), void *data) -> int {
        return cudaLaunchHostFunc(real(stream), function, data);
    };
    api.launchKernel = [](const void *function, Grid grid, Grid block, void **arguments, std::size_t sharedBytes,
                          Stream stream) -> int {
        return cudaLaunchKernel(function, real(grid), real(block), arguments, sharedBytes, real(stream));
    };
    api.streamBeginCapture = [](Stream stream, int mode) -> int {
        return cudaStreamBeginCapture(real(stream), static_cast<cudaStreamCaptureMode>(mode));
    };
    api.streamEndCapture = [](Stream stream, CapturedGraph *graph) -> int {
        return cudaStreamEndCapture(real(stream), reinterpret_cast<cudaGraph_t *>(graph));
    };
    api.graphInstantiate = [](GraphExec *exec, CapturedGraph graph) -> int {
        return cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t *>(exec), real(graph), 0);
    };
    api.graphDestroy = [](CapturedGraph graph) -> int { return cudaGraphDestroy(real(graph)); };
    api.graphLaunch = [](GraphExec exec, Stream stream) -> int { return cudaGraphLaunch(real(exec), real(stream)); };
    api.graphExecDestroy = [](GraphExec exec) -> int { return cudaGraphExecDestroy(real(exec)); };
    return api;
}

// --- cuBLASLt -------------------------------------------------------------------------------------------------------

#define PLANLOOM_PRODUCT_FUNCTIONS(X)                                                                                  \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatrixLayoutSetAttribute)                                                                                \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmul)

struct ProductLibrary {
#define X(Name) decltype(&::Name) Name = nullptr;
    PLANLOOM_PRODUCT_FUNCTIONS(X)
#undef X

    bool open()
    {
        void *library = nullptr;
        for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
            if (library == nullptr)
                library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            return false;
        bool all = true;
#define X(Name)                                                                                                        \
    Name = reinterpret_cast<decltype(Name)>(::dlsym(library, #Name));                                                  \
    all = all && Name != nullptr;
        PLANLOOM_PRODUCT_FUNCTIONS(X)
#undef X
        return all;
    }
};

ProductLibrary &productLibrary()
{
    static ProductLibrary kLibrary;
    return kLibrary;
}

cublasLtHandle_t real(ProductHandle handle) { return reinterpret_cast<cublasLtHandle_t>(handle); }
cublasLtMatmulDesc_t real(ProductDescription made) { return reinterpret_cast<cublasLtMatmulDesc_t>(made); }
cublasLtMatrixLayout_t real(MatrixLayout made) { return reinterpret_cast<cublasLtMatrixLayout_t>(made); }
cublasLtMatmulPreference_t real(ProductPreference made) { return reinterpret_cast<cublasLtMatmulPreference_t>(made); }

int multiply(ProductHandle handle, ProductDescription description, const void *alpha, const void *a,
             MatrixLayout aLayout, const void *b, MatrixLayout bLayout, const void *beta, const void *c,
             MatrixLayout cLayout, void *d, MatrixLayout dLayout, const ProductAlgorithm *algorithm, void *workspace,
             std::size_t workspaceBytes, Stream stream)
{
    return productLibrary().cublasLtMatmul(real(handle), real(description), alpha, a, real(aLayout), b, real(bLayout),
                                           beta, c, real(cLayout), d, real(dLayout),
                                           reinterpret_cast<const cublasLtMatmulAlgo_t *>(algorithm), workspace,
                                           workspaceBytes, real(stream));
}

int askHeuristic(ProductHandle handle, ProductDescription description, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                 MatrixLayout d, ProductPreference preference, int asked, ProductHeuristic *found, int *count)
{
    return productLibrary().cublasLtMatmulAlgoGetHeuristic(real(handle), real(description), real(a), real(b), real(c),
                                                           real(d), real(preference), asked,
                                                           reinterpret_cast<cublasLtMatmulHeuristicResult_t *>(found),
                                                           count);
}

ProductApi openedProducts()
{
    ProductApi api{};
    api.create = [](ProductHandle *handle) -> int {
        return productLibrary().cublasLtCreate(reinterpret_cast<cublasLtHandle_t *>(handle));
    };
    api.destroy = [](ProductHandle handle) -> int { return productLibrary().cublasLtDestroy(real(handle)); };
    api.createDescription = [](ProductDescription *made, ComputeKind compute, DataKind scale) -> int {
        return productLibrary().cublasLtMatmulDescCreate(reinterpret_cast<cublasLtMatmulDesc_t *>(made),
                                                         static_cast<cublasComputeType_t>(compute),
                                                         static_cast<cudaDataType_t>(scale));
    };
    api.destroyDescription = [](ProductDescription made) -> int {
        return productLibrary().cublasLtMatmulDescDestroy(real(made));
    };
    api.setDescription = [](ProductDescription made, ProductAttribute what, const void *value,
                            std::size_t bytes) -> int {
        return productLibrary().cublasLtMatmulDescSetAttribute(real(made),
                                                               static_cast<cublasLtMatmulDescAttributes_t>(what), value,
                                                               bytes);
    };
    api.createLayout = [](MatrixLayout *made, DataKind kind, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading) -> int {
        return productLibrary().cublasLtMatrixLayoutCreate(reinterpret_cast<cublasLtMatrixLayout_t *>(made),
                                                           static_cast<cudaDataType_t>(kind), rows, columns, leading);
    };
    api.destroyLayout = [](MatrixLayout made) -> int {
        return productLibrary().cublasLtMatrixLayoutDestroy(real(made));
    };
    api.setLayout = [](MatrixLayout made, LayoutAttribute what, const void *value, std::size_t bytes) -> int {
        return productLibrary().cublasLtMatrixLayoutSetAttribute(real(made),
                                                                 static_cast<cublasLtMatrixLayoutAttribute_t>(what),
                                                                 value, bytes);
    };
    api.createPreference = [](ProductPreference *made) -> int {
        return productLibrary().cublasLtMatmulPreferenceCreate(reinterpret_cast<cublasLtMatmulPreference_t *>(made));
    };
    api.destroyPreference = [](ProductPreference made) -> int {
        return productLibrary().cublasLtMatmulPreferenceDestroy(real(made));
    };
    api.setPreference = [](ProductPreference made, PreferenceAttribute what, const void *value,
                           std::size_t bytes) -> int {
        return productLibrary().cublasLtMatmulPreferenceSetAttribute(
            real(made), static_cast<cublasLtMatmulPreferenceAttributes_t>(what), value, bytes);
    };
    api.heuristic = askHeuristic;
    api.product = multiply;
    return api;
}

// --- cuDNN ----------------------------------------------------------------------------------------------------------

#ifdef PLANLOOM_CUDNN_HEADERS
#define PLANLOOM_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
PLANLOOM_SAME(GraphObject::Convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::EngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::EngineHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::ExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::ConvolutionForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::ConvolutionBackwardFilter, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::ConvolutionBackwardData, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::OperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::VariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
PLANLOOM_SAME(GraphObject::Tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
PLANLOOM_SAME(GraphType::Handle, CUDNN_TYPE_HANDLE);
PLANLOOM_SAME(GraphType::DataType, CUDNN_TYPE_DATA_TYPE);
PLANLOOM_SAME(GraphType::Boolean, CUDNN_TYPE_BOOLEAN);
PLANLOOM_SAME(GraphType::Int64, CUDNN_TYPE_INT64);
PLANLOOM_SAME(GraphType::Float, CUDNN_TYPE_FLOAT);
PLANLOOM_SAME(GraphType::VoidPointer, CUDNN_TYPE_VOID_PTR);
PLANLOOM_SAME(GraphType::ConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
PLANLOOM_SAME(GraphType::HeuristicMode, CUDNN_TYPE_HEUR_MODE);
PLANLOOM_SAME(GraphType::NumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
PLANLOOM_SAME(GraphType::Descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
PLANLOOM_SAME(GraphAttribute::ConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
PLANLOOM_SAME(GraphAttribute::ConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
PLANLOOM_SAME(GraphAttribute::ConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
PLANLOOM_SAME(GraphAttribute::ConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
PLANLOOM_SAME(GraphAttribute::ConvolutionPadsAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
PLANLOOM_SAME(GraphAttribute::ConvolutionPadsBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
PLANLOOM_SAME(GraphAttribute::ConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
PLANLOOM_SAME(GraphAttribute::HeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE);
PLANLOOM_SAME(GraphAttribute::HeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
PLANLOOM_SAME(GraphAttribute::HeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
PLANLOOM_SAME(GraphAttribute::ConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
PLANLOOM_SAME(GraphAttribute::PlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
PLANLOOM_SAME(GraphAttribute::PlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
PLANLOOM_SAME(GraphAttribute::ForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
PLANLOOM_SAME(GraphAttribute::ForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
PLANLOOM_SAME(GraphAttribute::BackwardDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
PLANLOOM_SAME(GraphAttribute::BackwardDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
PLANLOOM_SAME(GraphAttribute::BackwardDataDX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
PLANLOOM_SAME(GraphAttribute::BackwardDataDY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
PLANLOOM_SAME(GraphAttribute::BackwardFilterAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
PLANLOOM_SAME(GraphAttribute::BackwardFilterDW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
PLANLOOM_SAME(GraphAttribute::BackwardFilterX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
PLANLOOM_SAME(GraphAttribute::BackwardFilterDY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
PLANLOOM_SAME(GraphAttribute::GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
PLANLOOM_SAME(GraphAttribute::TensorByteAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
PLANLOOM_SAME(GraphAttribute::TensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE);
PLANLOOM_SAME(GraphAttribute::TensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
PLANLOOM_SAME(GraphAttribute::TensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
PLANLOOM_SAME(GraphAttribute::TensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
PLANLOOM_SAME(GraphAttribute::PackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
PLANLOOM_SAME(GraphAttribute::PackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
PLANLOOM_SAME(GraphAttribute::PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
PLANLOOM_SAME(GraphAttribute::EngineNumericalNote, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
PLANLOOM_SAME(GraphDataType::Float, CUDNN_DATA_FLOAT);
PLANLOOM_SAME(GraphDataType::BFloat16, CUDNN_DATA_BFLOAT16);
PLANLOOM_SAME(GraphHeuristic::Fallback, CUDNN_HEUR_MODE_FALLBACK);
PLANLOOM_SAME(GraphHeuristic::A, CUDNN_HEUR_MODE_A);
PLANLOOM_SAME(NumericalNote::TensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
PLANLOOM_SAME(NumericalNote::DownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
PLANLOOM_SAME(NumericalNote::Nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
PLANLOOM_SAME(kMostNumericalNotes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
PLANLOOM_SAME(kCrossCorrelation, CUDNN_CROSS_CORRELATION);
#undef PLANLOOM_SAME

#define PLANLOOM_GRAPH_FUNCTIONS(X)                                                                                    \
    X(cudnnGetVersion)                                                                                                 \
    X(cudnnCreate)                                                                                                     \
    X(cudnnDestroy)                                                                                                    \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnBackendCreateDescriptor)                                                                                    \
    X(cudnnBackendDestroyDescriptor)                                                                                   \
    X(cudnnBackendSetAttribute)                                                                                        \
    X(cudnnBackendGetAttribute)                                                                                        \
    X(cudnnBackendFinalize)                                                                                            \
    X(cudnnBackendExecute)

struct GraphLibrary {
#define X(Name) decltype(&::Name) Name = nullptr;
    PLANLOOM_GRAPH_FUNCTIONS(X)
#undef X

    /// Version 9 of any minor version: attributes are numbered alike in all of them.
    bool open()
    {
        void *library = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            return false;
        bool all = true;
#define X(Name)                                                                                                        \
    Name = reinterpret_cast<decltype(Name)>(::dlsym(library, #Name));                                                  \
    all = all && Name != nullptr;
        PLANLOOM_GRAPH_FUNCTIONS(X)
#undef X
        return all && cudnnGetVersion() / 10000 == 9;
    }
};

GraphLibrary &graphLibrary()
{
    static GraphLibrary kLibrary;
    return kLibrary;
}

cudnnHandle_t real(GraphHandle handle) { return reinterpret_cast<cudnnHandle_t>(handle); }

/// nullptr: the library is not there, or of another version.
const GraphApi *openedGraphs()
{
    if (!graphLibrary().open())
        return nullptr;
    static GraphApi api{};
    api.create = [](GraphHandle *handle) -> int {
        return graphLibrary().cudnnCreate(reinterpret_cast<cudnnHandle_t *>(handle));
    };
    api.destroy = [](GraphHandle handle) -> int { return graphLibrary().cudnnDestroy(real(handle)); };
    api.setStream = [](GraphHandle handle, Stream stream) -> int {
        return graphLibrary().cudnnSetStream(real(handle), real(stream));
    };
    api.createDescriptor = [](GraphObject kind, GraphDescriptor *made) -> int {
        return graphLibrary().cudnnBackendCreateDescriptor(static_cast<cudnnBackendDescriptorType_t>(kind),
                                                           reinterpret_cast<cudnnBackendDescriptor_t *>(made));
    };
    api.destroyDescriptor = [](GraphDescriptor descriptor) -> int {
        return graphLibrary().cudnnBackendDestroyDescriptor(descriptor);
    };
    api.set = [](GraphDescriptor descriptor, GraphAttribute what, GraphType type, std::int64_t count,
                 const void *values) -> int {
        return graphLibrary().cudnnBackendSetAttribute(descriptor, static_cast<cudnnBackendAttributeName_t>(what),
                                                       static_cast<cudnnBackendAttributeType_t>(type), count, values);
    };
    api.get = [](GraphDescriptor descriptor, GraphAttribute what, GraphType type, std::int64_t room,
                 std::int64_t *count, void *values) -> int {
        return graphLibrary().cudnnBackendGetAttribute(descriptor, static_cast<cudnnBackendAttributeName_t>(what),
                                                       static_cast<cudnnBackendAttributeType_t>(type), room, count,
                                                       values);
    };
    api.finalize = [](GraphDescriptor descriptor) -> int { return graphLibrary().cudnnBackendFinalize(descriptor); };
    api.execute = [](GraphHandle handle, GraphDescriptor plan, GraphDescriptor pack) -> int {
        return graphLibrary().cudnnBackendExecute(real(handle), plan, pack);
    };
    return &api;
}
#else
const GraphApi *openedGraphs() { return nullptr; } // the toolkit has no headers of cuDNN
#endif

} // namespace

const Provider &installedLibraries()
{
    static const ProductApi kProducts = openedProducts();
    static const Provider kProvider = [] {
        Provider provider;
        provider.runtime = linkedRuntime();
        provider.products = productLibrary().open() ? &kProducts : nullptr;
        provider.graphs = openedGraphs();
        provider.kernels = deviceKernels();
        return provider;
    }();
    return kProvider;
}

} // namespace planloom::cuda
