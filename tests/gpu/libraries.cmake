# SPDX-License-Identifier: Apache-2.0
# The emulated GPU, and device libraries that tests open.
add_library(planloom_emulated_gpu STATIC ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulated_activity.cpp
            ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulated_gpu.cpp
            ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulated_nccl.cpp
            ${CMAKE_CURRENT_SOURCE_DIR}/gpu/left_out_waits.cpp)
target_link_libraries(planloom_emulated_gpu PUBLIC planloom_testing planloom_gpu planloom_device Threads::Threads)
if(PLANLOOM_WHOLE_BUILD AND NOT PLANLOOM_SANITIZE) # whole models run in these loops: minutes with less
  target_compile_options(planloom_emulated_gpu PRIVATE $<$<CONFIG:Release>:-O2>)
endif()
set(links_processor_plugin planloom_device)
set(links_emulated_library planloom_emulated_gpu)
foreach(library processor_plugin emulated_library)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/gpu/${library}.cpp)
  target_link_libraries(${library} PRIVATE ${links_${library}})
  target_link_options(${library} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(${library} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
add_dependencies(tst_plugin processor_plugin)
add_dependencies(tst_gpu_cli emulated_library)
add_dependencies(tst_gpu_kernels emulated_library)
add_dependencies(tst_gpu_faults emulated_library)
add_dependencies(tst_gpu_check emulated_library bench_gpu)
set_tests_properties(tst_gpu_check PROPERTIES COST 60) # one process on one core for a minute
if(TARGET planloom_cuda)
  foreach(test tst_plugin tst_activity tst_gpu_check)
    add_dependencies(${test} planloom_cuda)
  endforeach()
endif()

# A tree whose toolkit is missing, or not wanted, has all but the library.
add_test(NAME gpu_without_toolkit COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DGENERATOR=${CMAKE_GENERATOR}
         -DFOLDER=${CMAKE_BINARY_DIR}/without_toolkit -P ${CMAKE_CURRENT_LIST_DIR}/without_toolkit.cmake)
set_tests_properties(gpu_without_toolkit PROPERTIES LABELS gpu TIMEOUT ${test_seconds})
