# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
install(TARGETS planloom RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/resources/ DESTINATION ${CMAKE_INSTALL_DATADIR}/planloom)
if(PLANLOOM_STUDIO)
  install(TARGETS planloom-studio RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
