# SPDX-License-Identifier: Apache-2.0
# Everything that is not ours, found once. Debian 12's packages are the reference (packaging/install-deps); a library that
# can be missing on a headless machine switches off what needs it and says so.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
find_package(Eigen3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc IMPORTED_TARGET hwloc) # without it ranks are pinned by the kernel's own numbering

# Without toml++ configurations of torchtitan are not read (they are still written).
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  message(STATUS "toml++ (libtomlplusplus-dev) is missing: planloom plan --from cannot read torchtitan's TOML")
endif()

# Without METIS graphs for sampled training are cut into parts by a hash only.
find_path(METIS_INCLUDE_DIR metis.h)
find_library(METIS_LIBRARY metis)
if(NOT METIS_INCLUDE_DIR OR NOT METIS_LIBRARY)
  unset(METIS_LIBRARY CACHE)
  message(STATUS "METIS (libmetis-dev) is missing: graphs are cut into parts by a hash only")
endif()

# Debian's dnnl CMake package asks for OpenCL's development files, which nothing here uses: take header and library.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(planloom::dnnl INTERFACE IMPORTED)
target_include_directories(planloom::dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(planloom::dnnl INTERFACE ${DNNL_LIBRARY})

if(PLANLOOM_STUDIO)
  find_package(Qt6 6.4 REQUIRED COMPONENTS Core Gui Widgets Charts Svg)
endif()
if(PLANLOOM_TESTS)
  find_package(Qt6 6.4 REQUIRED COMPONENTS Core Test)
endif()
