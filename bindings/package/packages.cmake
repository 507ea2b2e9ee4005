# Debian packages, by `./dev package`, which installs to /usr: the program; what compilers need; what
# programs need at run time. The same commit gives the same bytes: times are SOURCE_DATE_EPOCH.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gradus)
set(CPACK_PACKAGE_CONTACT "The gradus authors <gradus@users.noreply.github.com>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, if that is set
file(CONFIGURE OUTPUT changelog CONTENT "gradus (@PROJECT_VERSION@) unstable; urgency=medium\n
  * The history of the sources is their changelog.\n
 -- @CPACK_PACKAGE_CONTACT@  @now@\n" @ONLY)
execute_process(COMMAND gzip -9 -n -c ${CMAKE_CURRENT_BINARY_DIR}/changelog
  OUTPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)

set(packages program library dev)
set(program_is gradus math "autograd engine that shows its working")
set(library_is libgradus1 libs "shared library of the gradus autograd engine")
set(dev_is libgradus-dev libdevel "headers and libraries of the gradus autograd engine")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS gradus)  # for its modules
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libgradus1 (= ${PROJECT_VERSION}), zlib1g-dev")
# Who links it depends on the package; the loader's cache is told, as policy 8.1.1 wants it.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/shlibs "libgradus 1 libgradus1 (>= ${PROJECT_VERSION})\n")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_BINARY_DIR}/shlibs ${CMAKE_CURRENT_BINARY_DIR}/triggers)
set(CPACK_COMPONENTS_ALL ${packages})
foreach(component ${packages})
  list(GET ${component}_is 0 name)
  list(GET ${component}_is 1 section)
  list(GET ${component}_is 2 summary)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${COMPONENT}_DESCRIPTION "${summary}
gradus records tensor operations and differentiates them, to any order, on
CPUs and on GPUs whose modules are opened at run time. Every derivative that
it uses can be printed, checked and audited number by number.")
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSES/MIT.txt DESTINATION ${documents} COMPONENT ${component} RENAME copyright)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz DESTINATION ${documents} COMPONENT ${component})
endforeach()
include(CPack)
