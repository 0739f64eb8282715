// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/exact.h"

/// The bytes as a tensor file, as an outline, and as a model that is read exactly for the inputs that it names.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size)
{
    using namespace planloom;
    const std::string_view bytes(reinterpret_cast<const char *>(data), size);
    (void)import::readTensorFile(bytes, "fuzz.pb").ok();
    const auto outline = import::outlineOf(bytes);
    if (!outline)
        return 0;
    std::vector<import::FedInput> fed;
    for (const std::string &name : outline->inputs)
        fed.push_back({{name, graph::DType::I64, {2}, std::vector<std::byte>(16, std::byte{1})}, fed.size() % 2 == 1});
    (void)import::readOnnxExactly(bytes, "fuzz.onnx", "/nonexistent", fed).ok();
    return 0;
}
