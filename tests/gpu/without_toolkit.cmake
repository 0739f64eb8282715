# SPDX-License-Identifier: Apache-2.0
# Configures SOURCE in FOLDER with GENERATOR, once as where nvcc is missing and once without wanting it: the program is built of both, the library of
# neither.
foreach(setting CMAKE_CUDA_COMPILER=NOTFOUND PLANLOOM_CUDA=OFF)
  file(REMOVE_RECURSE ${FOLDER})
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${FOLDER} -D${setting} -DCMAKE_BUILD_TYPE=Release -DPLANLOOM_STUDIO=OFF
                          -DPLANLOOM_TESTS=OFF -DPLANLOOM_BENCH=OFF
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "${setting}: ${said}")
  endif()
  if(setting MATCHES NOTFOUND AND NOT said MATCHES "toolkit \\(nvcc\\) is missing: libplanloom_cuda.so is not built")
    message(FATAL_ERROR "${setting}: nothing says that the toolkit is missing: ${said}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${FOLDER} --target help RESULT_VARIABLE failed OUTPUT_VARIABLE targets)
  if(failed OR NOT targets MATCHES "planloom_gpu" OR targets MATCHES "planloom_cuda")
    message(FATAL_ERROR "${setting}: the targets are ${targets}")
  endif()
endforeach()
file(REMOVE_RECURSE ${FOLDER})
