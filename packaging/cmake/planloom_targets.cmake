# SPDX-License-Identifier: Apache-2.0
# One library per folder of the house: planloom_folder(<target> [PUBLIC libs] [PRIVATE libs]) compiles every .cpp beside
# the CMakeLists.txt that calls it (and beneath, with RECURSE, but for the folders EXCLUDE), so that a new file needs no edit of a build file.
# OWN_FLAGS: the caller adds compile options to the target. QUICK: it takes milliseconds of a run, so that a whole build under sanitizers, which
# runs once, does not optimise it (half of the time that it takes to compile).

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(planloom_flags INTERFACE)
target_include_directories(planloom_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(planloom_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (PLANLOOM_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Debug"))
  # GCC 12 finds impossible string and vector sizes after inlining (its bugs 105651, 105329): these warnings follow the optimiser, and
  # the debug builds keep them.
  target_compile_options(planloom_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
                         -Wno-maybe-uninitialized -Wno-free-nonheap-object -Wno-dangling-pointer)
endif()
if(PLANLOOM_SANITIZE)
  target_compile_options(planloom_flags INTERFACE -fsanitize=${PLANLOOM_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=undefined)
  # A whole build leaves out the checks that take most of its time: AddressSanitizer ends a program at a null pointer and beyond an object
  # too, however the pointer was moved there, and x86 reads unaligned. What a test does itself (NO_UNDEFINED) is checked for addresses alone.
  if(PLANLOOM_WHOLE_BUILD AND PLANLOOM_SANITIZE MATCHES "undefined")
    target_compile_options(planloom_flags INTERFACE -fno-sanitize=null,alignment,object-size,vptr,pointer-overflow
                           $<$<BOOL:$<TARGET_PROPERTY:NO_UNDEFINED>>:-fno-sanitize=undefined>)
  endif()
  target_link_options(planloom_flags INTERFACE -fsanitize=${PLANLOOM_SANITIZE})
endif()

if(PLANLOOM_FAILPOINTS)
  target_compile_definitions(planloom_flags INTERFACE PLANLOOM_FAILPOINTS)
endif()

if(PLANLOOM_FUZZ) # coverage of the library's own code is what guides the fuzzer
  target_compile_options(planloom_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(PLANLOOM_CCACHE ccache)
if(PLANLOOM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PLANLOOM_CCACHE})
endif()
if(PLANLOOM_WHOLE_BUILD AND PLANLOOM_CCACHE) # without these, ccache passes by what uses a precompiled header
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${PLANLOOM_CCACHE})
  target_compile_options(planloom_flags INTERFACE -fpch-preprocess)
endif()
if(PLANLOOM_WHOLE_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The files of a folder as one, with large precompiled headers, fill GCC's memory: collecting garbage below 1 GB takes 8 % of the time.
  target_compile_options(planloom_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
  if(PLANLOOM_SANITIZE) # where statements begin is for who steps through them: 10 % of the time, and reports name lines without
    target_compile_options(planloom_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-gno-statement-frontiers>)
  endif()
endif()
if(PLANLOOM_WHOLE_BUILD) # -pthread sets macros that a precompiled header must agree with; one that does not fit is passed by
  target_compile_options(planloom_flags INTERFACE -pthread -Wno-error=invalid-pch)
endif()
find_program(PLANLOOM_LLD ld.lld)
if(PLANLOOM_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# planloom_precompiled(<target> HEADERS headers [LIBRARIES libs]): headers that other targets of the same flags can take compiled, by
# target_precompile_headers(... REUSE_FROM <target>). Only with PLANLOOM_WHOLE_BUILD: a build of everything parses them a few times, not hundreds, but
# every file then sees more than it includes.
function(planloom_precompiled target)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cpp CONTENT "")
  add_library(${target} STATIC ${CMAKE_BINARY_DIR}/${target}.cpp)
  # Not through ccache: it restores precompiled headers of an equal text, and they name files as they were then.
  set_target_properties(${target} PROPERTIES AUTOMOC OFF CXX_COMPILER_LAUNCHER "")
  target_link_libraries(${target} PRIVATE planloom_flags ${ARG_LIBRARIES})
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()

set(PLANLOOM_COMMON_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
    <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
if(PLANLOOM_WHOLE_BUILD)
  planloom_precompiled(planloom_precompiled_headers HEADERS ${PLANLOOM_COMMON_HEADERS})
  planloom_precompiled(planloom_precompiled_openmp_headers HEADERS ${PLANLOOM_COMMON_HEADERS} LIBRARIES OpenMP::OpenMP_CXX)
  if(PLANLOOM_SANITIZE)
    planloom_precompiled(planloom_precompiled_quick_headers HEADERS ${PLANLOOM_COMMON_HEADERS})
    target_compile_options(planloom_precompiled_quick_headers PRIVATE -O0)
  endif()
endif()

# planloom_unity(<target> <sources>): with PLANLOOM_WHOLE_BUILD the files of one folder are compiled as one, which parses their headers once.
# Files of one folder therefore do not define the same local name twice.
function(planloom_unity target)
  if(NOT PLANLOOM_WHOLE_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC takes a file that is included for a header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source ${ARGN})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE group)
    cmake_path(GET group PARENT_PATH group)
    string(MAKE_C_IDENTIFIER "${target}/${group}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

function(planloom_folder target)
  cmake_parse_arguments(ARG "RECURSE;OWN_FLAGS;QUICK" "" "PUBLIC;PRIVATE;EXCLUDE" ${ARGN})
  if(ARG_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  else()
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  endif()
  foreach(folder ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  if(NOT sources MATCHES "\\.cpp")
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE planloom_flags ${ARG_PUBLIC})
    return()
  endif()
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC planloom_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  planloom_unity(${target} ${sources})
  if(PLANLOOM_WHOLE_BUILD AND ARG_OWN_FLAGS)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "") # of its precompiled header, too
    target_precompile_headers(${target} PRIVATE ${PLANLOOM_COMMON_HEADERS})
  elseif(PLANLOOM_WHOLE_BUILD)
    set(kind "")
    if("OpenMP::OpenMP_CXX" IN_LIST ARG_PRIVATE OR "OpenMP::OpenMP_CXX" IN_LIST ARG_PUBLIC)
      set(kind "_openmp")
    elseif(ARG_QUICK AND PLANLOOM_SANITIZE)
      set(kind "_quick")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    endif()
    target_precompile_headers(${target} REUSE_FROM planloom_precompiled${kind}_headers)
  endif()
endfunction()
