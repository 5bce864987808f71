# cmake --install: the program, the libraries with their headers, and the files that find_package(braid) reads. A target braid_<folder> becomes
# braid::<folder> there.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/braid)

install(TARGETS braid RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set_target_properties(braid_requirements PROPERTIES EXPORT_NAME requirements)
install(TARGETS braid_requirements EXPORT braidTargets)
foreach(folder ${BRAID_FOLDERS})
  braid_target_of(${folder} target)
  string(REGEX REPLACE "^braid_" "" exported ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
  set(header_set "")
  if(BRAID_HEADERS_${folder})
    set(header_set FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
  install(TARGETS ${target} EXPORT braidTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${header_set})
endforeach()
install(EXPORT braidTargets NAMESPACE braid:: DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/braidConfig.cmake.in ${CMAKE_BINARY_DIR}/braidConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/braidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/braidConfig.cmake ${CMAKE_BINARY_DIR}/braidConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/cmake/BraidDependencies.cmake DESTINATION ${package_dir})
