# SPDX-License-Identifier: Apache-2.0
# What is installed, and the packages made of it: planloom (headless, Apache-2.0) and planloom-studio (GPL-3.0-or-later) as .deb, and
# one .tar.gz of both.
include(GNUInstallDirs)
install(TARGETS planloom RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT planloom)
if(NOT CMAKE_CROSSCOMPILING) # app/CMakeLists.txt writes them
  install(FILES ${CMAKE_BINARY_DIR}/completions/planloom DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT planloom)
  install(FILES ${CMAKE_BINARY_DIR}/completions/_planloom DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT planloom)
  install(FILES ${CMAKE_BINARY_DIR}/man/planloom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT planloom)
endif()
if(TARGET planloom_cuda) # found in ../lib/planloom; NVIDIA's libraries are the user's
  install(TARGETS planloom_cuda LIBRARY DESTINATION lib/planloom COMPONENT cuda)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/resources/docs ${CMAKE_SOURCE_DIR}/resources/samples
        DESTINATION ${CMAKE_INSTALL_DATADIR}/planloom COMPONENT planloom)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/resources/tools/export_torch.py DESTINATION ${CMAKE_INSTALL_DATADIR}/planloom/tools COMPONENT planloom)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/planloom COMPONENT planloom)
set(CPACK_COMPONENTS_ALL planloom)
if(PLANLOOM_STUDIO)
  install(TARGETS planloom-studio RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT studio)
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/planloom-studio.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications COMPONENT studio)
  install(FILES ${CMAKE_SOURCE_DIR}/resources/icons/planloom.svg
          DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps COMPONENT studio)
  # Files of these types open in the studio, links planloom:... as well.
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/planloom-mime.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages RENAME planloom.xml
          COMPONENT studio)
  if(NOT CMAKE_CROSSCOMPILING)
    install(FILES ${CMAKE_BINARY_DIR}/completions/planloom-studio DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            COMPONENT studio)
    install(FILES ${CMAKE_BINARY_DIR}/man/planloom-studio.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT studio)
  endif()
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/planloom-studio COMPONENT studio)
  list(APPEND CPACK_COMPONENTS_ALL studio)
endif()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME planloom)
set(CPACK_PACKAGE_VENDOR "Planloom")
set(CPACK_PACKAGE_CONTACT "Planloom maintainers <maintainers@planloom.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/packaging/LICENSES/Apache-2.0.txt)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PLANLOOM_PACKAGE_NAME planloom)
set(CPACK_DEBIAN_PLANLOOM_PACKAGE_DEPENDS "openmpi-bin")
set(CPACK_DEBIAN_PLANLOOM_PACKAGE_SUGGESTS "graphviz")
set(CPACK_COMPONENT_PLANLOOM_DESCRIPTION "Command line, agent and training workers")
set(CPACK_DEBIAN_STUDIO_PACKAGE_NAME planloom-studio)
set(CPACK_DEBIAN_STUDIO_PACKAGE_DEPENDS "planloom (= ${PROJECT_VERSION}), libqt6svg6")
set(CPACK_DEBIAN_STUDIO_PACKAGE_RECOMMENDS "graphviz")
set(CPACK_COMPONENT_STUDIO_DESCRIPTION "The desktop studio")
include(CPack)
