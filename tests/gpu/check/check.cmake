# SPDX-License-Identifier: Apache-2.0
# The check of a GPU, `planloom bench gpu`; packaging/gpu-check makes a folder of it.
add_executable(bench_gpu ${CMAKE_CURRENT_LIST_DIR}/bench_gpu.cpp ${CMAKE_CURRENT_LIST_DIR}/model_checks.cpp
               ${CMAKE_CURRENT_LIST_DIR}/operator_checks.cpp ${CMAKE_CURRENT_LIST_DIR}/report.cpp
               ${CMAKE_CURRENT_LIST_DIR}/step_times.cpp ${CMAKE_CURRENT_LIST_DIR}/training.cpp)
target_include_directories(bench_gpu PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_gpu PRIVATE planloom_profiler planloom_import nlohmann_json::nlohmann_json fmt::fmt)
configure_file(${CMAKE_CURRENT_LIST_DIR}/torch_peer.py ${CMAKE_BINARY_DIR}/bin/bench_gpu_torch.py COPYONLY)
