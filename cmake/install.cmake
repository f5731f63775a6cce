# Installs the library, its headers as <sinter/...>, and what find_package(sinter) needs.
include(CMakePackageConfigHelpers)
install(TARGETS sinter EXPORT sinterTargets)
foreach(_room IN LISTS SINTER_ROOMS)
  install(DIRECTORY ${_room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sinter
    FILES_MATCHING PATTERN "*.h" PATTERN "kernels/cpu" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()
install(FILES sinter.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sinter)
install(EXPORT sinterTargets NAMESPACE sinter:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sinter)
configure_package_config_file(cmake/sinterConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/sinterConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sinter)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sinterConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sinterConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/sinterConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sinter)
